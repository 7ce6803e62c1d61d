"""One snapshot for several tables and many tasks."""

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta

import psycopg
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from skipmq.analytics import frames, snapshot, sources
from skipmq.analytics.jdbc import Source
from skipmq.analytics.lake.export import export
from skipmq.analytics.reports.period import LONGEST_LIFE
from support.analytics import settle
from support.http import eventually
from support.postgres import Connection
from support.sql import Queue, number

MESSAGES = 600


@contextmanager
def moving(url: str, queue: Queue) -> Iterator[None]:
    """Receive and delete all the time, and send as many again, in one transaction each.

    Each snapshot has the same number of live messages. Some were settled when the block begins.
    """
    over = threading.Event()

    def move() -> None:
        with psycopg.connect(url) as connection:
            mine = queue.on(connection)
            while not over.wait(0.01):
                received = mine.receive(2)
                mine.delete(*received)
                mine.send(*["x"] * len(received))
                connection.commit()

    with ThreadPoolExecutor() as pool:
        movers = [pool.submit(move) for _ in range(2)]
        try:
            until_settled(queue.connection, 1)
            yield
        finally:
            over.set()
    for mover in movers:
        mover.result()


def until_settled(owner: Connection, least: int) -> None:
    eventually(
        lambda: number(owner, "select count(*) from skipmq.history") >= least,
        why="nothing is settled",
    )


def test_history_and_live_messages_add_up_while_messages_move(
    spark: SparkSession, source: Source, database: str, owner: Connection
) -> None:
    orders = Queue(owner)
    for _ in range(MESSAGES // 100):
        orders.send(*["x"] * 100)
    live, settled = [], []
    with moving(database, orders):
        for _ in range(3):
            with snapshot.taken(source) as taken:
                found = snapshot.everything(spark, taken)
                ((distinct, rows, waiting),) = found.selectExpr(
                    "count(distinct message_id)", "count(*)", "count_if(live)"
                ).collect()
            assert distinct == rows
            live.append(waiting)
            settled.append(rows - waiting)
            until_settled(owner, settled[-1] + 1)

    assert live == [MESSAGES] * 3
    assert settled == sorted(set(settled))


@pytest.mark.slow
def test_report_has_each_message_once_while_messages_move(
    spark: SparkSession, source: Source, database: str, owner: Connection
) -> None:
    orders = Queue(owner)
    for _ in range(MESSAGES // 100):
        orders.send(*["x"] * 100)
    since = number(owner, "select now() - interval '1 day'")
    live, settled = [], []
    with moving(database, orders):
        for _ in range(3):
            found = sources.from_database(spark, source, since)
            # A report reads the history when the snapshot is over, and more than once.
            for _ in range(2):
                ((distinct, rows, waiting),) = found.selectExpr(
                    "count(distinct id)", "count(*)", "count_if(settled_at is null)"
                ).collect()
                assert distinct == rows
                live.append(waiting)
                settled.append(rows - waiting)
            until_settled(owner, settled[-1] + 1)

    assert live == [MESSAGES] * 6
    assert settled[::2] == settled[1::2] == sorted(set(settled))


def test_report_has_what_was_settled_before_a_restore_numbered_transactions_anew(
    spark: SparkSession, source: Source, owner: Connection
) -> None:
    orders = Queue(owner)
    orders.send("x")
    orders.delete(*orders.receive())
    owner.execute("update skipmq.history set xid = xid + 1000000000")
    since = number(owner, "select now() - interval '1 day'")

    found = sources.from_database(spark, source, since)

    assert [row.outcome for row in found.collect()] == ["deleted"]


def test_read_of_a_snapshot_that_is_over_fails(
    spark: SparkSession, source: Source, owner: Connection
) -> None:
    Queue(owner).send("x")
    with snapshot.taken(source) as taken:
        late = snapshot.everything(spark, taken)

    gone = "does not exist|invalid snapshot identifier"
    with pytest.raises((PySparkException, Py4JJavaError), match=gone):
        late.count()


def test_read_without_a_cursor_is_refused(spark: SparkSession, source: Source) -> None:
    with (
        snapshot.taken(source) as taken,
        pytest.raises(ValueError, match="without a cursor"),
    ):
        taken.read(spark, "select 1 as one", fetch=0)


def test_report_on_a_past_time_reads_nothing_that_was_sent_after_it(
    spark: SparkSession, source: Source, owner: Connection, place: str
) -> None:
    settle(owner, 20)
    waiting = Queue(owner, "mails")
    waiting.send("settled later")
    orders = Queue(owner, "news")
    orders.send("still here")
    until = number(owner, "select clock_timestamp()")
    waiting.delete(*waiting.receive())
    settle(owner, 300, "later")
    orders.send("later")
    export(spark, source, place)
    since = number(owner, "select now() - interval '1 day'")

    by_queue = [
        Counter(row.queue for row in found.collect())
        for found in (
            sources.from_database(spark, source, since, as_of=until),
            frames.lake(spark, place, since=since, as_of=until),
        )
    ]

    assert by_queue == [{"orders": 20, "mails": 1, "news": 1}, {"orders": 20, "mails": 1}]
    # No day of the lake is for a time so long after it.
    long_ago = until - LONGEST_LIFE - timedelta(days=1)
    before = long_ago - timedelta(days=1)
    assert frames.lake(spark, place, since=before, as_of=long_ago).inputFiles() == []
    direct = frames.history(spark, source, since=before, as_of=long_ago)
    assert direct.count() == 0
