"""A node behind a router serves as behind one database, and while a partition is unavailable."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from time import monotonic
from typing import NamedTuple

import psycopg
import pytest
from botocore.exceptions import ClientError

from support import servers
from support.http import NodeProcess, client, eventually, raw
from support.partitions import Partitions, frozen, is_up, plproxy_server
from support.postgres import Databases, as_node

_number = count(1)


class Behind(NamedTuple):
    """A node behind a router, the server of its second partition, and another router."""

    process: NodeProcess
    made: Partitions
    second: Databases
    router: str


@contextmanager
def serving(
    embedded_databases: Databases,
    router_server: Databases,
    server_folder: Path,
    failover_wait: int = 2,
) -> Iterator[Behind]:
    server = servers.start(server_folder / f"second-{next(_number)}", ephemeral=True, migrated=True)
    second = Databases(server)
    made = Partitions([embedded_databases, second], router_server)
    router = router_server.copy(made.router)
    with NodeProcess(
        database_url=as_node(made.router),
        workers=1,
        failover_wait=failover_wait,
        # Statements in a partition that hangs take longer than the test does.
        database_deadline=600,
        purge_cooldown=0,
    ) as process:
        yield Behind(process.ready(), made, second, router)
    server.release()


@pytest.fixture(scope="module")
def node(
    embedded_databases: Databases, router_server: Databases, server_folder: Path
) -> Iterator[Behind]:
    """Give a node that tests share, which refuses nothing while they hold up a partition."""
    with serving(embedded_databases, router_server, server_folder, failover_wait=60) as found:
        yield found


@pytest.fixture
def own_node(
    embedded_databases: Databases, router_server: Databases, server_folder: Path
) -> Iterator[Behind]:
    """Give a node whose second partition may be taken down for good."""
    with serving(embedded_databases, router_server, server_folder) as found:
        yield found


@pytest.mark.slow
def test_boto3_uses_queues_of_both_partitions(node: Behind) -> None:
    process, made, *_ = node
    sqs = client(process.url)
    places = [(0, ""), (1, ""), (0, ".fifo"), (1, ".fifo")]
    names = [made.name_at(*place, prefix="both") for place in places]
    urls = []
    for name in names:
        fifo = {"FifoQueue": "true"} if name.endswith(".fifo") else {}
        urls.append(sqs.create_queue(QueueName=name, Attributes=fifo)["QueueUrl"])

    for name, url in zip(names, urls, strict=True):
        group = {"MessageGroupId": "g", "MessageDeduplicationId": "1"} if "fifo" in name else {}
        sqs.send_message(QueueUrl=url, MessageBody=name, **group)
        (message,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5)["Messages"]
        assert message["Body"] == name
        sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        sqs.purge_queue(QueueUrl=url)

    assert sqs.list_queues(QueueNamePrefix="both")["QueueUrls"] == sorted(urls)


def test_error_text_is_the_partitions_own(node: Behind) -> None:
    process, made, *_ = node
    sqs = client(process.url)
    name = made.name_at(1)
    sqs.create_queue(QueueName=name, Attributes={"DelaySeconds": "1"})

    with pytest.raises(ClientError) as raised:
        sqs.create_queue(QueueName=name, Attributes={"DelaySeconds": "2"})

    assert raised.value.response["Error"]["Code"] == "QueueAlreadyExists"
    assert "REMOTE" not in raised.value.response["Error"]["Message"]


@pytest.mark.slow
def test_queues_of_other_partitions_are_served_while_one_is_unavailable(
    own_node: Behind,
) -> None:
    process, made, second, _ = own_node
    sqs = client(process.url)
    urls = [sqs.create_queue(QueueName=made.name_at(number))["QueueUrl"] for number in (0, 1)]
    second.server.release()
    eventually(lambda: not is_up(second), seconds=30)

    refused = set()
    for _ in range(3):
        began = monotonic()
        with pytest.raises(ClientError) as raised:
            sqs.send_message(QueueUrl=urls[1], MessageBody="waits")
        refused.add(raised.value.response["ResponseMetadata"]["HTTPStatusCode"])
        assert monotonic() - began < 30
        sqs.send_message(QueueUrl=urls[0], MessageBody="served")

    assert refused == {503}
    assert 'skipmq_partition_available{partition="0"} 1.0' in process.metrics()
    assert 'skipmq_partition_available{partition="1"} 0.0' in process.metrics()
    assert len(sqs.receive_message(QueueUrl=urls[0], MaxNumberOfMessages=10)["Messages"]) == 3


def test_queues_of_other_partitions_are_served_while_one_hangs(node: Behind) -> None:
    """More requests wait for it than the node has connections."""
    process, made, second, _ = node
    sqs = client(process.url)
    urls = [sqs.create_queue(QueueName=made.name_at(number))["QueueUrl"] for number in (0, 1)]
    others = [sqs.create_queue(QueueName=made.name_at(1))["QueueUrl"] for _ in range(12)]
    with ThreadPoolExecutor(len(others)) as pool:
        with frozen(second):
            sends = [
                pool.submit(client(process.url).send_message, QueueUrl=url, MessageBody="waits")
                for url in others
            ]
            for number in range(20):
                sqs.send_message(QueueUrl=urls[0], MessageBody=str(number))
            # Else the load balancer would send requests for no queue any more.
            assert raw(f"{process.url}/health/ready").status == 200
            assert not any(each.done() for each in sends)

        assert all(each.result()["MessageId"] for each in sends)


def test_receiver_is_woken_by_a_send_through_another_router(
    node: Behind,
) -> None:
    process, made, _, other = node
    name = made.name_at(1)
    url = client(process.url).create_queue(QueueName=name)["QueueUrl"]
    with (
        NodeProcess(database_url=as_node(other), workers=1) as second_process,
        ThreadPoolExecutor(1) as pool,
    ):
        second_process.ready()
        there = client(second_process.url).get_queue_url(QueueName=name)["QueueUrl"]
        waiting = pool.submit(client(process.url).receive_message, QueueUrl=url, WaitTimeSeconds=20)
        eventually(lambda: "skipmq_waiting_receivers 1.0" in process.metrics())
        sent = client(second_process.url).send_message(QueueUrl=there, MessageBody="tea")

        (message,) = waiting.result()["Messages"]

    assert message["MessageId"] == sent["MessageId"]


@pytest.fixture
def lost(
    embedded_databases: Databases, server_folder: Path
) -> Iterator[tuple[NodeProcess, Partitions, Databases]]:
    """Give a node whose router has a server of its own, to be taken down."""
    folder = server_folder / f"router-{next(_number)}"
    server = servers.start(folder, ephemeral=True, bin_dir=plproxy_server())
    router_server = Databases(server)
    made = Partitions([embedded_databases, embedded_databases], router_server)
    with NodeProcess(
        database_url=as_node(made.router), workers=1, failover_wait=1, purge_cooldown=0
    ) as process:
        yield process.ready(), made, router_server
    server.release()


def test_lost_router_stops_nothing_but_creates_and_lists(
    lost: tuple[NodeProcess, Partitions, Databases],
) -> None:
    process, made, router_server = lost
    sqs = client(process.url)
    urls = [sqs.create_queue(QueueName=made.name_at(number))["QueueUrl"] for number in (0, 1)]
    # One that the node has not used yet.
    unused = made.name_at(1)
    with psycopg.connect(made.urls[1], autocommit=True) as owner:
        owner.execute("select skipmq.create_queue(%s)", (unused,))
    fresh = made.name_at(0)
    router_server.server.release()
    # A create before the node has noticed may have been done.
    eventually(lambda: "skipmq_database_available 0.0" in process.metrics(), seconds=60)

    for request in (lambda: sqs.create_queue(QueueName=fresh), sqs.list_queues):
        with pytest.raises(ClientError) as raised:
            request()
        response = raised.value.response
        assert response["ResponseMetadata"]["HTTPStatusCode"] == 503
        assert response["Error"]["Message"].startswith("The router cannot be reached")
    urls.append(sqs.get_queue_url(QueueName=unused)["QueueUrl"])
    for url in urls:
        sqs.send_message(QueueUrl=url, MessageBody="tea")
        (message,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5)["Messages"]
        sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        sqs.purge_queue(QueueUrl=url)
    assert raw(f"{process.url}/health/ready").status == 200
    assert 'skipmq_partition_available{partition="1"} 1.0' in process.metrics()
