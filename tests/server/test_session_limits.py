"""What a node does with limits that a database or a role has for its sessions."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from botocore.exceptions import ClientError

from support.http import NodeProcess, client, eventually
from support.postgres import Connection, Databases, as_node
from support.sql import number, until_blocked

LIMITS = {
    "statement_timeout": "1ms",
    "transaction_timeout": "1s",
    "idle_session_timeout": "100ms",
    "idle_in_transaction_session_timeout": "1ms",
}


@pytest.fixture
def url(embedded_databases: Databases) -> Iterator[str]:
    url = embedded_databases.migrated()
    yield url
    embedded_databases.drop(url)


@pytest.fixture
def owner(url: str) -> Iterator[Connection]:
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


def sent(sqs: Any, queue: str) -> bool:
    """Send a batch that takes PostgreSQL more than a millisecond; return whether it is stored."""
    entries = [{"Id": str(n), "MessageBody": str(n) * 50_000} for n in range(10)]
    try:
        return "Failed" not in sqs.send_message_batch(QueueUrl=queue, Entries=entries)
    except ClientError:
        return False


def test_limits_of_the_role_are_not_those_of_a_node(url: str, owner: Connection) -> None:
    with NodeProcess(database_url=as_node(url), workers=1) as node:
        sqs = client(node.ready().url)
        queue = sqs.create_queue(QueueName="orders")["QueueUrl"]
        name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
        for limit, value in LIMITS.items():
            owner.execute(f"alter role skipmq_node in database {name} set {limit} = '{value}'")
        # They are for sessions that begin from now on.
        owner.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'skipmq_node'"
            " and datname = current_database()"
        )
        eventually(lambda: sent(sqs, queue))
        outages = node.metric("skipmq_database_outages_total")

        for _ in range(20):
            assert sent(sqs, queue)

        assert node.metric("skipmq_database_outages_total") == outages
        with pytest.raises(psycopg.Error), psycopg.connect(as_node(url)) as other:
            other.execute("select pg_sleep(60)")


def test_statement_that_is_cancelled_is_an_error_of_its_own(url: str, owner: Connection) -> None:
    patient = f"{as_node(url)}&options=-c%20lock_timeout%3D0"
    with (
        NodeProcess(database_url=patient, workers=1, database_deadline=60) as node,
        ThreadPoolExecutor() as pool,
        psycopg.connect(url) as holder,
    ):
        sqs = client(node.ready().url)
        queue = sqs.create_queue(QueueName="orders")["QueueUrl"]
        holder.execute("lock table skipmq.message in exclusive mode")
        sending = pool.submit(sqs.send_message, QueueUrl=queue, MessageBody="once")
        until_blocked(owner, "skipmq.send_messages")
        cancelled = owner.execute(
            "select pg_cancel_backend(pid) from pg_stat_activity"
            " where datname = current_database() and position('skipmq.send_messages' in query) > 0"
            " and pid <> pg_backend_pid()"
        ).fetchall()
        assert cancelled == [(True,)]

        with pytest.raises(ClientError, match="The database cancelled the statement"):
            sending.result()
        holder.rollback()

        assert node.metric("skipmq_database_outages_total") == 0
        sqs.send_message(QueueUrl=queue, MessageBody="again")
        assert number(owner, "select count(*) from skipmq.message where body = 'once'") == 0
