"""One snapshot for several tables and many tasks."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from skipmq.analytics import snapshot, sources
from skipmq.analytics.jdbc import Source
from skipmq.analytics.period import Period
from support.postgres import Connection
from support.sql import Queue, number

MESSAGES = 2_000


@contextmanager
def moving(url: str, queue: Queue) -> Iterator[None]:
    """Receive and delete all the time, and send as many again, in one transaction each."""
    over = threading.Event()

    def move() -> None:
        with psycopg.connect(url) as connection:
            mine = queue.on(connection)
            while not over.is_set():
                received = mine.receive()
                mine.delete(*received)
                connection.commit()

    threads = [threading.Thread(target=move) for _ in range(2)]
    for thread in threads:
        thread.start()
    yield
    over.set()
    for thread in threads:
        thread.join()


def test_history_and_live_messages_add_up_while_messages_move(
    spark: SparkSession, source: Source, database: str, owner: Connection
) -> None:
    orders = Queue(owner)
    for _ in range(MESSAGES // 100):
        orders.send(*["x"] * 100)
    counts, settled = [], []
    with moving(database, orders):
        for _ in range(4):
            with snapshot.taken(source) as taken:
                found = snapshot.everything(spark, taken)
                rows = {row.live: row["count"] for row in found.groupBy("live").count().collect()}
                distinct = found.select("message_id").distinct().count()
            counts.append((sum(rows.values()), distinct))
            settled.append(rows.get(False, 0))

    assert counts == [(MESSAGES, MESSAGES)] * 4
    assert settled[0] < settled[-1]


def test_report_has_each_message_once_while_messages_move(
    spark: SparkSession, source: Source, database: str, owner: Connection
) -> None:
    orders = Queue(owner)
    for _ in range(MESSAGES // 100):
        orders.send(*["x"] * 100)
    today = Period(number(owner, "select now() - interval '1 day'"), number(owner, "select now()"))
    counts, settled = [], []
    with moving(database, orders):
        for _ in range(3):
            found = sources.from_database(spark, source, today)
            # A report reads the history when the snapshot is over, and more than once.
            counts += [(found.count(), found.select("id").distinct().count()) for _ in range(2)]
            settled.append(found.where("settled_at is not null").count())

    assert counts == [(MESSAGES, MESSAGES)] * 6
    assert 0 < settled[0] < settled[-1]


def test_report_has_what_was_settled_before_a_restore_numbered_transactions_anew(
    spark: SparkSession, source: Source, owner: Connection
) -> None:
    orders = Queue(owner)
    orders.send("x")
    orders.delete(*orders.receive())
    owner.execute("update skipmq.history set xid = xid + 1000000000")
    today = Period(number(owner, "select now() - interval '1 day'"), number(owner, "select now()"))

    found = sources.from_database(spark, source, today)

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
