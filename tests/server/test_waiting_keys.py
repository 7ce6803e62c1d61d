"""Long polls of nodes that check signatures: whose they are, and what ends them."""

import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from typing import Any

import pytest
from botocore.exceptions import ClientError

from support.access import code, known
from support.http import NodeProcess, client, eventually
from support.key_commands import ACCOUNT, MASTER_KEY, Keys
from support.postgres import Databases, as_node

# A worker that takes eight requests has four places for receivers that wait.
MOST, PLACES = 8, 4
_number = count(1)


@pytest.fixture(scope="module")
def keys(embedded_databases: Databases) -> Keys:
    return Keys(embedded_databases.migrated())


@pytest.fixture(scope="module")
def node(keys: Keys) -> Iterator[NodeProcess]:
    with NodeProcess(
        database_url=as_node(keys.url),
        workers=1,
        auth="on",
        master_key=MASTER_KEY,
        max_requests=MOST,
        metrics_main_port="on",
    ) as process:
        yield process.ready()


@pytest.fixture(scope="module")
def admin(node: NodeProcess, keys: Keys) -> Any:
    return known(client(node.url, **keys.create()))


@pytest.fixture
def queue(admin: Any) -> str:
    return str(admin.create_queue(QueueName=f"waited-on-{next(_number)}")["QueueUrl"])


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(MOST) as found:
        yield found


def outcome(sqs: Any, queue: str) -> str | list[str]:
    """Wait for messages; return their bodies, or the code of the error."""
    try:
        answer = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=20)
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return [message["Body"] for message in answer.get("Messages", [])]


def waiting(node: NodeProcess) -> float:
    return node.metric("skipmq_waiting_receivers")


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        (["disable"], "InvalidClientTokenId"),
        (["revoke", "--yes"], "InvalidClientTokenId"),
        (["permit", "--role", "producer"], "AccessDenied"),
    ],
    ids=lambda words: words[0] if isinstance(words, list) else "",
)
@pytest.mark.parametrize("temporary", [False, True])
def test_key_that_is_changed_while_it_waits_receives_nothing(
    node: NodeProcess,
    keys: Keys,
    admin: Any,
    queue: str,
    threads: ThreadPoolExecutor,
    change: list[str],
    refused: str,
    temporary: bool,
) -> None:
    key = keys.create(ACCOUNT, "--role", "consumer")
    used = keys.session(key["key"]) if temporary else key
    sqs = known(client(node.url, **used))
    waits = threads.submit(outcome, sqs, queue)
    eventually(lambda: waiting(node) == 1)

    keys.run(change[0], key["key"], *change[1:])
    eventually(lambda: code(sqs.receive_message, QueueUrl=queue) == refused)
    admin.send_message(QueueUrl=queue, MessageBody="x")

    assert waits.result(timeout=60) == refused
    (message,) = eventually(
        lambda: admin.receive_message(QueueUrl=queue, AttributeNames=["All"]).get("Messages")
    )
    assert message["Attributes"]["ApproximateReceiveCount"] == "1"


def test_queue_policy_that_is_changed_while_a_key_waits_counts(
    node: NodeProcess, keys: Keys, admin: Any, queue: str, threads: ThreadPoolExecutor
) -> None:
    stranger = known(client(node.url, **keys.create("210987654321")))
    allow = {"Effect": "Allow", "Principal": "*", "Action": "sqs:ReceiveMessage", "Resource": "*"}
    shared = {"Policy": json.dumps({"Version": "2012-10-17", "Statement": [allow]})}
    admin.set_queue_attributes(QueueUrl=queue, Attributes=shared)
    waits = threads.submit(outcome, stranger, queue)
    eventually(lambda: waiting(node) == 1)

    admin.set_queue_attributes(QueueUrl=queue, Attributes={"Policy": ""})
    admin.send_message(QueueUrl=queue, MessageBody="x")

    assert waits.result(timeout=60) == "AccessDenied"
    assert outcome(admin, queue) == ["x"]


def test_key_that_holds_all_places_makes_room_for_another(
    node: NodeProcess, keys: Keys, admin: Any, queue: str, threads: ThreadPoolExecutor
) -> None:
    greedy, modest = (known(client(node.url, **keys.create())) for _ in range(2))
    held: list[Future[Any]] = []
    for number in range(PLACES):
        held.append(threads.submit(outcome, greedy, queue))
        eventually(lambda n=number: waiting(node) == n + 1)
    # None is left for the key that holds all.
    assert code(greedy.receive_message, QueueUrl=queue, WaitTimeSeconds=20) == "ServiceUnavailable"

    other = threads.submit(outcome, modest, queue)

    # The newest ends early, with nothing, as a receive may.
    assert held[-1].result(timeout=15) == []
    eventually(lambda: waiting(node) == PLACES)
    assert not any(each.done() for each in [*held[:-1], other])
    for number in range(PLACES):
        admin.send_message(QueueUrl=queue, MessageBody=str(number))
    received = [body for each in [*held[:-1], other] for body in each.result(timeout=60)]
    assert len(received) == PLACES
