"""The database's counters, compared with the rows that a reader has."""

import psycopg
import pytest

pytest.importorskip("pyspark")

from skipmq.analytics.postgres import counters
from skipmq.database import session
from support.analytics import settle
from support.postgres import Connection, as_reader
from support.sql import Queue, number


def settled(database: str) -> dict[tuple[str, str], int]:
    """Return what is counted, by queue and outcome, where that is not nothing."""
    with session.connect(as_reader(database), "test") as reader:
        return {
            (row["queue"], row["outcome"]): row["counted"]
            for row in counters.settled(reader)
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
            rows = counters.settled(reader)

    (deleted,) = (row for row in rows if row["outcome"] == "deleted")
    below = "select count(*) from skipmq_views.history where xid < %s"
    assert deleted["horizon"] <= first
    assert deleted["counted"] == 30
    assert deleted["unread"] == 30 - number(owner, below, deleted["horizon"])


def test_queue_without_history_is_left_out(database: str, owner: Connection) -> None:
    settle(owner, 20, HistoryMode="off")
    Queue(owner, "mails")

    with session.connect(as_reader(database), "test") as reader:
        rows = counters.settled(reader)

    assert [(row["queue"], row["counted"]) for row in rows] == [("mails", 0), ("mails", 0)]
