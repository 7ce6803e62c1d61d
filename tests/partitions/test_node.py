"""A node behind a router serves as behind one database, and while a partition is unavailable."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from time import monotonic

import psycopg
import pytest
from botocore.exceptions import ClientError

from skipmq import embedded
from support.http import NodeProcess, client, eventually
from support.partitions import Partitions
from support.postgres import Databases, as_node

_number = count(1)


@pytest.fixture
def second(public_folder: Path) -> Iterator[Databases]:
    """Give a server that the test may take down."""
    server = embedded.start(public_folder / f"second-{next(_number)}", ephemeral=True)
    yield Databases(server)
    server.release()


@pytest.fixture
def node(
    embedded_databases: Databases, second: Databases, router_server: Databases
) -> Iterator[tuple[NodeProcess, Partitions]]:
    made = Partitions([embedded_databases, second], router_server)
    with NodeProcess(
        database_url=as_node(made.router), workers=1, failover_wait=2, purge_cooldown=0
    ) as process:
        yield process.ready(), made


def test_boto3_uses_queues_of_both_partitions(node: tuple[NodeProcess, Partitions]) -> None:
    process, made = node
    sqs = client(process.url)
    names = [made.name_at(0), made.name_at(1), made.name_at(0, ".fifo"), made.name_at(1, ".fifo")]
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

    assert sqs.list_queues()["QueueUrls"] == sorted(urls)


def test_error_text_is_the_partitions_own(node: tuple[NodeProcess, Partitions]) -> None:
    process, made = node
    sqs = client(process.url)
    name = made.name_at(1)
    sqs.create_queue(QueueName=name, Attributes={"DelaySeconds": "1"})

    with pytest.raises(ClientError) as raised:
        sqs.create_queue(QueueName=name, Attributes={"DelaySeconds": "2"})

    assert raised.value.response["Error"]["Code"] == "QueueAlreadyExists"
    assert "REMOTE" not in raised.value.response["Error"]["Message"]


def is_up(databases: Databases) -> bool:
    try:
        psycopg.connect(databases.server.url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


def test_queues_of_other_partitions_are_served_while_one_is_unavailable(
    node: tuple[NodeProcess, Partitions], second: Databases
) -> None:
    process, made = node
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
    assert len(sqs.receive_message(QueueUrl=urls[0], MaxNumberOfMessages=10)["Messages"]) == 3
