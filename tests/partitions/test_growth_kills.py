"""A rebalance that is killed at each of its steps loses, doubles and reorders no message."""

import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from support.forks import Forked
from support.http import SKIPMQ, NodeProcess, client, eventually
from support.partitions import Partitions, in_second, run
from support.postgres import Databases, as_node
from support.queue_traffic import Traffic

Connection = psycopg.Connection[Any]
OWN = "application_name = 'skipmq partitions' and datname = current_database()"


@pytest.fixture
def one(embedded_databases: Databases, router_server: Databases) -> Iterator[Partitions]:
    """Give one partition, to which the test adds a second one."""
    made = Partitions.copied(embedded_databases, router_server, 1)
    yield made
    made.drop()


def waits(connection: Connection) -> bool:
    """Return whether the rebalance waits for a lock in this database."""
    query = f"select exists (select from pg_stat_activity where {OWN} and wait_event_type = 'Lock')"
    return connection.execute(query).fetchone() == (True,)


def relocated(connection: Connection) -> bool:
    query = "select exists (select from skipmq.relocation)"
    return connection.execute(query).fetchone() == (True,)


class Killed:
    """A rebalance of one queue that is held at a step and killed there."""

    def __init__(self, made: Partitions) -> None:
        self._made = made

    def at_lock(self, partition: int, lock: str) -> None:
        """Kill it where it waits for a lock of a partition that another transaction has."""
        with psycopg.connect(self._made.urls[partition]) as held:
            held.execute(lock)
            with self._process() as process, self._watch(partition) as watching:
                self._kill(process, lambda: waits(watching))

    def at_transaction(self) -> None:
        """Kill it while it waits for a transaction of the source."""
        with psycopg.connect(self._made.urls[0]) as held:
            held.execute("select")
            with self._process() as process, self._watch(0) as watching:
                self._kill(process, lambda: relocated(watching))

    def after_copy(self, lock: str, is_there: Callable[[Connection], bool]) -> None:
        """Kill it where it waits for a lock of the source, when the target has the queue.

        The lock's transaction may not be older than the copy, which would wait for it.
        """
        source, target = self._made.urls
        with (
            psycopg.connect(target) as first,
            self._watch(1) as copying,
            psycopg.connect(source) as second,
            self._watch(0) as watching,
        ):
            first.execute("lock table skipmq.queue in share mode")
            with self._process() as process:
                eventually(lambda: process.poll() is not None or waits(copying), seconds=60)
                second.execute(lock)
                first.rollback()
                self._kill(process, lambda: waits(watching) and is_there(watching))

    def _process(self) -> Forked:
        options = ["--router", self._made.router, "--limit", "1", "--wait", "600"]
        return Forked(
            [*SKIPMQ, "partitions", "rebalance", *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def _watch(self, partition: int) -> Connection:
        return psycopg.connect(self._made.urls[partition], autocommit=True)

    def _kill(self, process: Forked, is_there: Callable[[], bool]) -> None:
        eventually(lambda: process.poll() is not None or is_there(), seconds=60)
        output = b"" if process.poll() is None else process.communicate()[1]
        assert process.poll() is None, output
        process.kill()
        process.wait()


def place_is_known(connection: Connection) -> bool:
    query = """
    select exists (
      select from skipmq.relocation l
      join skipmq.queue_place e using (account, region, name))
    """
    return connection.execute(query).fetchone() == (True,)


STEPS: dict[str, Callable[[Killed], None]] = {
    "before anything": lambda killed: killed.at_lock(
        0, "lock table skipmq.move_task in access exclusive mode"
    ),
    "out of service": Killed.at_transaction,
    "copying": lambda killed: killed.at_lock(1, "lock table skipmq.noisy_tenant in share mode"),
    "copied": lambda killed: killed.at_lock(1, "lock table skipmq.queue in share mode"),
    "in the target": lambda killed: killed.after_copy(
        "lock table skipmq.queue_place in share mode", relocated
    ),
    "known at home": lambda killed: killed.after_copy(
        "select from skipmq.relocation for update", place_is_known
    ),
}


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(["copied", "in the target"], id="two"),
        pytest.param([*STEPS], id="all", marks=pytest.mark.slow),
    ],
)
def test_kills_at_steps_lose_double_and_reorder_nothing(
    one: Partitions, embedded_databases: Databases, steps: list[str]
) -> None:
    names = [in_second(f"killed-{n}", ".fifo" if n % 2 else "") for n in range(len(steps))]
    with NodeProcess(database_url=as_node(one.router), workers=1) as node:
        sqs = client(node.ready().url)
        urls = []
        for name in names:
            fifo = {"FifoQueue": "true"} if name.endswith(".fifo") else {}
            urls.append(sqs.create_queue(QueueName=name, Attributes=fifo)["QueueUrl"])
        assert one.add(embedded_databases).exit_code == 0
        traffic = Traffic(node.url, urls, visibility=300)
        eventually(lambda: all(len(traffic.received[url]) > 5 for url in urls), seconds=60)

        for step in steps:
            STEPS[step](Killed(one))
        done = run("rebalance", "--router", one.router)
        assert done.exit_code == 0, done.exception
        before = {url: len(traffic.received[url]) for url in urls}
        eventually(
            lambda: all(len(traffic.received[url]) > before[url] + 5 for url in urls), seconds=60
        )
        traffic.stop()

        assert run("rebalance-plan", "--router", one.router, "--json").stdout.count('"to"') == 0
        for url in urls:
            eventually(lambda url=url: traffic.consume(sqs, url) or not traffic.lost(url))
            assert traffic.errors[url] == []
            # One delivery each: no partition had another copy.
            assert set(traffic.received[url].values()) == {1}
            if url.endswith(".fifo"):
                assert [*traffic.received[url]] == traffic.sent[url]
        assert "fit" in run("doctor", "--router", one.router).output


def test_queue_of_an_open_transaction_stays_and_is_served(
    one: Partitions, embedded_databases: Databases
) -> None:
    name = in_second("open")
    with NodeProcess(database_url=as_node(one.router), workers=1) as node:
        sqs = client(node.ready().url)
        url = sqs.create_queue(QueueName=name)["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody="tea")
        assert one.add(embedded_databases).exit_code == 0

        with psycopg.connect(one.urls[0]) as held:
            held.execute("select")
            kept = run("rebalance", "--router", one.router, "--wait", "0.1")
            sqs.send_message(QueueUrl=url, MessageBody="tea")
        moved = run("rebalance", "--router", one.router)

        assert f"kept {name}: transactions were open" in " ".join(kept.output.split())
        assert "moved 1 queues" in moved.output
        received = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=5)
        assert [message["Body"] for message in received["Messages"]] == ["tea", "tea"]
