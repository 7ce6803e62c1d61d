"""A rebalance after one that is frozen, or whose connection to a lock has died without a word."""

import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from support.forks import Forked
from support.http import SKIPMQ, NodeProcess, client, eventually
from support.partitions import Partitions, in_second, run
from support.postgres import Databases, as_node

MOVER = "application_name = 'skipmq partitions' and datname = current_database()"
LOCKED = f"select exists (select from pg_stat_activity where {MOVER} and wait_event_type = 'Lock')"
HOLDER = (
    "select a.pid from pg_locks l join pg_stat_activity a using (pid) where l.locktype = 'advisory'"
    f" and l.granted and {MOVER}"
)


@pytest.fixture
def one(embedded_databases: Databases, router_server: Databases) -> Iterator[Partitions]:
    made = Partitions.copied(embedded_databases, router_server, 1)
    yield made
    made.drop()


def one_value(url: str, query: str) -> Any:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(query.encode()).fetchone()
        return None if row is None else row[0]


def test_next_rebalance_names_a_frozen_one_and_ends_it_once_its_lock_is_lost(
    one: Partitions, embedded_databases: Databases
) -> None:
    name = in_second("frozen")
    with NodeProcess(database_url=as_node(one.router), workers=1) as node:
        sqs = client(node.ready().url)
        queue = sqs.create_queue(QueueName=name)["QueueUrl"]
        sqs.send_message(QueueUrl=queue, MessageBody="tea")
        assert one.add(embedded_databases).exit_code == 0
        source, target = one.urls
        words = [*SKIPMQ, "partitions", "rebalance", "--router", one.router]
        with psycopg.connect(target) as held:
            held.execute("lock table skipmq.noisy_tenant in share mode")
            with Forked(words, stdout=subprocess.DEVNULL) as frozen:
                try:
                    eventually(lambda: one_value(target, LOCKED))
                    frozen.send_signal(signal.SIGSTOP)
                    held.rollback()
                    holder = one_value(source, HOLDER)

                    refused = run("rebalance", "--router", one.router)
                    assert refused.exit_code == 1
                    told = " ".join(str(refused.exception).split())
                    assert f"select pg_terminate_backend({holder})" in told

                    # As the server does where the path of that connection is gone. The frozen
                    # mover's transactions in both partitions stay.
                    assert one_value(source, f"select pg_terminate_backend({holder})")
                    eventually(lambda: one_value(source, HOLDER) is None)
                    moved = run("rebalance", "--router", one.router)
                    assert moved.exit_code == 0, moved.exception
                    for url in one.urls:
                        count = f"select count(*) from pg_stat_activity where {MOVER}"
                        eventually(lambda url=url, count=count: one_value(url, count) == 0)
                finally:
                    frozen.kill()
        received = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=20)
        assert [message["Body"] for message in received["Messages"]] == ["tea"]
        assert one_value(source, "select count(*) from skipmq.relocation") == 0
