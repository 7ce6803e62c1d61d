"""What nodes and commands do while a disk has damaged a page of the database."""

import json
from collections.abc import Iterator
from typing import Any

import botocore.exceptions
import psycopg
import pytest

from support.commands import invoke, run
from support.damage import damaged_copy, pages_of
from support.http import NodeProcess, client, environment, eventually, free_port, raw
from support.postgres import Databases, as_node
from support.sql import Queue, number

COUNT = 600
NUMBERS = (
    "select split_part(body, ' ', 1) from skipmq.message"
    " where queue_id > 0 and (ctid::text::point)[0] = %s"
)


@pytest.fixture(scope="module")
def filled(embedded_databases: Databases) -> Iterator[str]:
    """Give a database that has a queue with messages."""
    url = embedded_databases.migrated()
    with psycopg.connect(url, autocommit=True) as owner:
        queue = Queue(owner)
        for n in range(COUNT):
            queue.send(f"{n} {'x' * 200}")
        Queue(owner, "other")
    yield url
    embedded_databases.drop(url)


def received(sqs: Any, queue: str) -> set[str]:
    """Receive until a receive returns nothing; return the numbers of the messages."""
    found: list[str] = []
    while some := sqs.receive_message(
        QueueUrl=queue, MaxNumberOfMessages=10, VisibilityTimeout=600
    ).get("Messages"):
        found += [message["Body"].split()[0] for message in some]
    assert len(found) == len(set(found))
    return set(found)


def test_damaged_page_of_the_table_stops_nothing_else(
    embedded_databases: Databases, filled: str
) -> None:
    with psycopg.connect(filled, autocommit=True) as owner:
        page = pages_of(owner, "true")[5]
        lost = {n for (n,) in owner.execute(NUMBERS, (page,))}
    url = damaged_copy(embedded_databases, filled, "skipmq.message", page)
    with NodeProcess(database_url=as_node(url), workers=2) as node:
        sqs = client(node.ready().url)
        orders = sqs.get_queue_url(QueueName="orders")["QueueUrl"]
        other = sqs.get_queue_url(QueueName="other")["QueueUrl"]

        assert received(sqs, orders) == {str(n) for n in range(COUNT)} - lost

        sqs.send_message(QueueUrl=other, MessageBody="a")
        (message,) = sqs.receive_message(QueueUrl=other)["Messages"]
        sqs.delete_message(QueueUrl=other, ReceiptHandle=message["ReceiptHandle"])
        # Each worker knows it by itself.
        ready = eventually(
            lambda: '"damaged"' in (found := raw(f"{node.url}/health/ready")).body and found
        )
        assert ready.status == 200
        assert f"invalid page in block {page}" in json.loads(ready.body)["damage"]
        eventually(lambda: 'skipmq_damaged_pages{relation="skipmq.message"} 1' in metrics(node))
        assert 'number_of_messages_received_total{account="000000000000"' in metrics(node)
        trouble = ("trouble", "--endpoint", node.url)
        told = "Pages of skipmq.message are damaged: 1"
        eventually(lambda: told in invoke(trouble, environment({})).stdout)
        assert "Traceback" not in node.log
    printed = run("doctor", database_url=url, port=free_port(), code=1)
    assert f"invalid page in block {page}" in printed
    assert "set zero_damaged_pages = on" in printed
    embedded_databases.drop(url)


def metrics(node: NodeProcess) -> str:
    answer = raw(f"{node.url}/metrics")
    assert answer.status == 200
    return answer.body


def test_damaged_index_is_named_and_rebuilt(embedded_databases: Databases, filled: str) -> None:
    with psycopg.connect(filled, autocommit=True) as owner:
        pages = number(owner, "select pg_relation_size('skipmq.message_visible') / 8192")
    # All but the page that says where the root is.
    damaged = range(1, pages)
    url = damaged_copy(embedded_databases, filled, "skipmq.message_visible", *damaged)
    with NodeProcess(database_url=as_node(url)) as node:
        sqs = client(node.ready().url)
        orders = sqs.get_queue_url(QueueName="orders")["QueueUrl"]
        with pytest.raises(botocore.exceptions.ClientError) as refused:
            sqs.send_message(QueueUrl=orders, MessageBody="a")

        assert refused.value.response["Error"]["Code"] == "ServiceUnavailable"
        assert "is damaged" in refused.value.response["Error"]["Message"]
        eventually(lambda: '"damaged"' in raw(f"{node.url}/health/ready").body)
        damage = json.loads(raw(f"{node.url}/health/ready").body)["damage"]
        remedy = "reindex index concurrently skipmq.message_visible"
        assert remedy in damage
        assert remedy in run("doctor", database_url=url, port=free_port(), code=1)
        assert "skipmq_queue_number_of_messages_sent_total{" in metrics(node)

        with psycopg.connect(url, autocommit=True) as owner:
            owner.execute(remedy.encode())
        assert len(received(sqs, orders)) == COUNT
        eventually(lambda: '"writable"' in raw(f"{node.url}/health/ready").body)
        assert "Traceback" not in node.log
    embedded_databases.drop(url)
