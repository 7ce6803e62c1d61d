"""The database's counters, compared with the rows that a reader has."""

from typing import TYPE_CHECKING

import psycopg
import pytest

pytest.importorskip("pyspark")

from skipmq.analytics.lake.export import export
from skipmq.analytics.postgres import counters, history
from skipmq.analytics.spark import medallion
from skipmq.database import session
from skipmq.database.partitions import QUEUE_BITS
from support.analytics import settle
from support.partitions import Partitions
from support.postgres import Connection, as_reader
from support.sql import Queue, number

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skipmq.analytics.jdbc import Source


def settled(database: str) -> dict[tuple[str, str], int]:
    """Return what is counted, by queue and outcome, where that is not nothing."""
    with session.connect(as_reader(database), "test") as reader:
        return {
            (row["queue"], row["outcome"]): row["counted"]
            for row in counters.settled(reader, history.server(reader).horizon)
            if row["counted"]
        }


def test_counters_are_those_of_the_history_also_when_they_are_folded(
    database: str, owner: Connection
) -> None:
    settle(owner, 20)
    settle(owner, 10, "mails")
    before = settled(database)
    owner.execute("select skipmq.fold_counts(true)")

    assert settled(database) == before == {("mails", "deleted"): 10, ("orders", "deleted"): 20}


def test_messages_that_a_reader_cannot_see_yet_are_unread(database: str, owner: Connection) -> None:
    settle(owner, 20)
    with psycopg.connect(database) as other:
        first = number(other, "select pg_current_xact_id()::text::bigint")
        settle(owner, 10)

        with session.connect(as_reader(database), "test") as reader:
            rows = counters.settled(reader, history.server(reader).horizon)

    (deleted,) = (row for row in rows if row["outcome"] == "deleted")
    below = "select count(*) from skipmq_views.history where xid < %s"
    assert deleted["horizon"] <= first
    assert deleted["counted"] == 30
    assert deleted["unread"] == 30 - number(owner, below, deleted["horizon"])


def test_queue_without_history_is_left_out(database: str, owner: Connection) -> None:
    settle(owner, 20, HistoryMode="off")
    Queue(owner, "mails")

    with session.connect(as_reader(database), "test") as reader:
        rows = counters.settled(reader, history.server(reader).horizon)

    assert [(row["queue"], row["counted"]) for row in rows] == [("mails", 0), ("mails", 0)]


def test_pipeline_has_the_counters_of_each_partition(
    spark: "SparkSession",
    two: Partitions,
    routed: "Source",
    owners: list[Connection],
    place: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settle(owners[0], 20, "tea")
    settle(owners[1], 30, "mails")
    export(spark, routed, place)
    settle(owners[0], 10, "tea")
    monkeypatch.setenv("SKIPMQ_DATABASE_URL", as_reader(two.router))
    monkeypatch.setenv("SKIPMQ_ARCHIVE", place)

    rows = medallion.counted(spark).where("counted > 0").orderBy("queue_id").collect()

    assert [(row.queue_id >> QUEUE_BITS, row.queue, row.counted) for row in rows] == [
        (0, "tea", 30),
        (1, "mails", 30),
    ]
    below = "select count(*) from skipmq_views.history where xid < %s"
    assert [row.unread for row in rows] == [10, 0]
    for owner, row in zip(owners, rows, strict=True):
        assert number(owner, below, row.horizon) == row.counted - row.unread
