"""What requests notice of a table that another program locks."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from support.http import NodeProcess, client, eventually, extension, raw
from support.postgres import Connection, Databases, as_node

MIGRATION = "their migration"


@pytest.fixture
def database(embedded_databases: Databases) -> Iterator[str]:
    url = embedded_databases.migrated()
    yield url
    embedded_databases.drop(url)


@pytest.fixture
def migration(database: str) -> Iterator[Connection]:
    with psycopg.connect(database, application_name=MIGRATION) as connection:
        yield connection


@pytest.mark.parametrize(
    "mode", [pytest.param("exclusive", marks=pytest.mark.slow), "access exclusive"]
)
def test_requests_wait_for_a_table_that_is_locked_and_metrics_name_the_session(
    database: str, migration: Connection, mode: str
) -> None:
    with NodeProcess(database_url=as_node(database), workers=1, failover_wait=60) as node:
        sqs = client(node.ready().url)
        orders = sqs.create_queue(QueueName="orders")["QueueUrl"]
        fifo = sqs.create_queue(QueueName="orders.fifo", Attributes={"FifoQueue": "true"})
        sqs.send_message(QueueUrl=orders, MessageBody="before")
        (received,) = sqs.receive_message(QueueUrl=orders)["Messages"]

        with ThreadPoolExecutor() as pool:
            migration.execute(f"lock table skipmq.message in {mode} mode")
            requests = [
                pool.submit(sqs.send_message, QueueUrl=orders, MessageBody="while"),
                pool.submit(
                    sqs.send_message,
                    QueueUrl=fifo["QueueUrl"],
                    MessageBody="while",
                    MessageGroupId="g",
                    MessageDeduplicationId="d",
                ),
                pool.submit(
                    sqs.delete_message, QueueUrl=orders, ReceiptHandle=received["ReceiptHandle"]
                ),
            ]
            eventually(lambda: node.metric("skipmq_waiting_for_tables") == len(requests))
            assert node.metric("skipmq_tables_available") == 0
            holder = f'skipmq_table_lock_seconds{{session="{MIGRATION}, process '
            eventually(lambda: holder in node.metrics(), why="the session is named")
            assert not any(request.done() for request in requests)
            migration.rollback()
            for request in requests:
                request.result()

        eventually(lambda: node.metric("skipmq_tables_available") == 1)
        assert MIGRATION not in node.metrics()
        assert "tables unavailable" in node.log
        (message,) = sqs.receive_message(QueueUrl=orders, MaxNumberOfMessages=10)["Messages"]
        assert message["Body"] == "while"


def test_request_times_out_while_a_table_stays_locked(database: str, migration: Connection) -> None:
    # A lock counts from the start of its transaction.
    migration.execute("select")
    with NodeProcess(database_url=as_node(database), workers=1, failover_wait=2) as node:
        sqs = client(node.ready().url)
        orders = sqs.create_queue(QueueName="orders")["QueueUrl"]
        migration.execute("lock table skipmq.message in exclusive mode")

        with pytest.raises(sqs.exceptions.ClientError, match="An open transaction holds"):
            sqs.send_message(QueueUrl=orders, MessageBody="too late")

        def found() -> list[dict[str, Any]]:
            troubles = extension(node.url, "GetOverview")["Troubles"]
            return [each for each in troubles if each["Trouble"] == "table-locked"]

        (trouble,) = eventually(found)
        assert MIGRATION in trouble["Summary"]
        assert MIGRATION in json.loads(raw(f"{node.url}/health/ready").body)["lock"]

        def events() -> set[str]:
            activity = extension(node.url, "GetOverview", Minutes=60)["Activity"]
            return {each["Event"] for each in activity["Events"]}

        eventually(lambda: "table-locked" in events())
        migration.rollback()
        sqs.send_message(QueueUrl=orders, MessageBody="now")
        messages = sqs.receive_message(QueueUrl=orders, MaxNumberOfMessages=10)["Messages"]
        assert [message["Body"] for message in messages] == ["now"]
