"""Receivers whose clients hang up: nothing is taken, counted or locked for them."""

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from support.hang_ups import WAYS, Leave, asked
from support.http import ACCOUNT, NodeProcess, client, eventually, raw
from support.postgres import Databases, as_node
from support.sql import until_blocked

every_way = pytest.mark.parametrize("leave", WAYS)


@pytest.fixture(scope="module")
def database(embedded_databases: Databases) -> str:
    return embedded_databases.migrated()


@pytest.fixture(scope="module")
def node(database: str) -> Iterator[NodeProcess]:
    with NodeProcess(database_url=as_node(database), workers=1, purge_cooldown=0) as process:
        yield process.ready()


@pytest.fixture
def sqs(node: NodeProcess) -> Any:
    """Give a client, and empty queues whose messages may be received once."""
    sqs = client(node.url)
    for kind, attributes in (("", {}), (".fifo", {"FifoQueue": "true"})):
        sqs.create_queue(QueueName=f"dead{kind}", Attributes=attributes)
        arn = f"arn:aws:sqs:us-east-1:{ACCOUNT}:dead{kind}"
        policy = {"RedrivePolicy": json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})}
        sqs.create_queue(QueueName=f"orders{kind}", Attributes=attributes | policy)
        for name in (f"orders{kind}", f"dead{kind}"):
            sqs.purge_queue(QueueUrl=f"/{ACCOUNT}/{name}")
    return sqs


def waiting(node: NodeProcess) -> float:
    return node.metric("skipmq_waiting_receivers")


def received(sqs: Any, queue: str, wait: int = 5) -> list[tuple[str, str]]:
    """Receive all there is: bodies, and how often they have been received."""
    answer = sqs.receive_message(
        QueueUrl=f"/{ACCOUNT}/{queue}",
        MaxNumberOfMessages=10,
        WaitTimeSeconds=wait,
        AttributeNames=["ApproximateReceiveCount"],
    )
    return [
        (message["Body"], message["Attributes"]["ApproximateReceiveCount"])
        for message in answer.get("Messages", [])
    ]


@every_way
@pytest.mark.parametrize("queue", ["orders", "orders.fifo"])
def test_receivers_that_hung_up_take_nothing(
    sqs: Any, node: NodeProcess, queue: str, leave: Leave
) -> None:
    for _ in range(5):
        leave(asked(node.port, queue, wait=20))
    eventually(lambda: waiting(node) == 0)

    group = {"MessageGroupId": "g", "MessageDeduplicationId": str(uuid4())} if "." in queue else {}
    sqs.send_message(QueueUrl=f"/{ACCOUNT}/{queue}", MessageBody="a", **group)

    assert received(sqs, queue) == [("a", "1")]


@every_way
@pytest.mark.parametrize("wait", [0, 20])
@pytest.mark.parametrize("queue", ["orders", "orders.fifo"])
def test_what_was_claimed_for_a_client_that_is_gone_is_given_back(
    sqs: Any, node: NodeProcess, database: str, queue: str, wait: int, leave: Leave
) -> None:
    """The claims are held up by a lock on the whole table until the clients are gone."""
    url = f"/{ACCOUNT}/{queue}"
    for n in range(4):
        group = {"MessageGroupId": f"g{n}", "MessageDeduplicationId": str(uuid4())}
        sqs.send_message(QueueUrl=url, MessageBody=str(n), **(group if "." in queue else {}))
    # The queue is known, and its messages in flight have been counted.
    sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])
    with psycopg.connect(database) as holder:
        holder.execute("lock table skipmq.message in access exclusive mode")
        askers = [asked(node.port, queue, wait) for _ in range(4)]
        until_blocked(holder, "claim_fifo_messages" if "." in queue else "receive_messages")
        for asker in askers:
            leave(asker)
        # What came before it on the node's loop has been done when this is answered.
        assert raw(f"{node.url}/health/live").status == 200
        holder.rollback()

    found: list[tuple[str, str]] = []
    while len(found) < 4:
        more = received(sqs, queue)
        assert more, found
        found += more
    assert sorted(found) == [(str(n), "1") for n in range(4)]
    # A receive that would be one too many moves a message at once.
    assert received(sqs, "dead" + queue.removeprefix("orders"), wait=0) == []


def test_receiver_that_stays_gets_what_another_one_left(sqs: Any, node: NodeProcess) -> None:
    staying = asked(node.port, "orders", wait=20)
    leaving = asked(node.port, "orders", wait=20)
    eventually(lambda: waiting(node) == 2)
    leaving.close()
    eventually(lambda: waiting(node) == 1)

    sqs.send_message(QueueUrl=f"/{ACCOUNT}/orders", MessageBody="for the one who stayed")

    assert b"for the one who stayed" in staying.recv(65536)
    staying.close()
