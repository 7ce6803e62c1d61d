"""Numbers at their end: what clients and `skipmq doctor` are answered."""

from collections.abc import Iterator
from typing import Any

import botocore.exceptions
import psycopg
import pytest

from support.commands import run
from support.http import NodeProcess, client, free_port
from support.postgres import Databases, as_node


@pytest.fixture(scope="module")
def url(embedded_databases: Databases) -> Iterator[str]:
    url = embedded_databases.migrated()
    yield url
    embedded_databases.drop(url)


@pytest.fixture(scope="module")
def node(url: str) -> Iterator[NodeProcess]:
    with NodeProcess(database_url=as_node(url)) as process:
        yield process.ready()


def send_until_refused(sqs: Any, queue: str, fifo: dict[str, str]) -> None:
    for n in range(1000):  # Sessions have some numbers of their own.
        sqs.send_message(QueueUrl=queue, MessageBody=str(n), **fifo)


@pytest.mark.parametrize(
    ("sequence", "fifo"), [("message_id_seq", {}), ("sequence_number_seq", {"MessageGroupId": "g"})]
)
def test_end_of_a_sequence_is_no_fault_of_the_client(
    url: str, node: NodeProcess, sequence: str, fifo: dict[str, str]
) -> None:
    sqs = client(node.url)
    name, attributes = "standard", {}
    if fifo:
        name, attributes = (
            "orders.fifo",
            {"FifoQueue": "true", "ContentBasedDeduplication": "true"},
        )
    queue = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    assert "numbers left" in run("doctor", database_url=url, port=free_port())
    with psycopg.connect(url, autocommit=True) as owner:
        last = f"setval('skipmq.{sequence}', 9223372036854775807)"
        owner.execute(f"select {last}".encode())

        with pytest.raises(botocore.exceptions.ClientError) as refused:
            send_until_refused(sqs, queue, fifo)

        error = refused.value.response["Error"]
        assert error["Code"] == "ServiceUnavailable"
        assert error["Message"].startswith("A sequence of the database has no more numbers")
        printed = run("doctor", database_url=url, port=free_port(), code=1)
        assert f"{sequence} has 0 numbers left" in printed
        owner.execute(f"select setval('skipmq.{sequence}', 1000000)".encode())
    assert "Traceback" not in node.log


@pytest.mark.parametrize("base", [0, 2147483645])
@pytest.mark.parametrize("count", [2147483646, 2147483647])
@pytest.mark.parametrize("fifo", [{}, {"MessageGroupId": "g", "MessageDeduplicationId": "d"}])
def test_message_that_was_received_too_often_to_count_is_received_and_deleted(
    url: str, node: NodeProcess, count: int, base: int, fifo: dict[str, str]
) -> None:
    sqs = client(node.url)
    name = f"often-{count}-{base}" + (".fifo" if fifo else "")
    attributes = {"FifoQueue": "true"} if fifo else {}
    queue = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    sqs.send_message(QueueUrl=queue, MessageBody="a", **fifo)
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(
            "update skipmq.message set receive_count = %s, receive_base = %s"
            " where queue_id = skipmq.queue_id(%s)",
            (count, base, name),
        )

    for _ in range(3):
        (message,) = sqs.receive_message(QueueUrl=queue, VisibilityTimeout=0)["Messages"]
    (message,) = sqs.receive_message(QueueUrl=queue)["Messages"]
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])

    assert "Messages" not in sqs.receive_message(QueueUrl=queue)
    assert "Traceback" not in node.log
