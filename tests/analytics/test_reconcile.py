"""Audits, on frames whose answers can be computed by hand."""

import json
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

pytest.importorskip("pyspark")

from skipmq.analytics import reconcile, snapshot, sources
from skipmq.analytics.errors import ReconcileError
from support.postgres import Connection
from support.settled import NOON, at_noon, frame, row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from skipmq.analytics.jdbc import Source

NOW = at_noon(1000)


def log(spark: "SparkSession", folder: Path, *numbers: int, queue: str = "orders") -> "DataFrame":
    lines = [
        {"message_id": str(UUID(int=n)), "queue": queue, "sent_at": NOON.isoformat()}
        for n in numbers
    ]
    path = folder / f"{queue[-6:]}.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    return reconcile.sends(spark, str(path))


def test_reconcile_finds_losses_duplicates_and_late_ones(
    spark: "SparkSession", tmp_path: Path
) -> None:
    messages = frame(
        spark,
        row(1),
        row(2, settled=None),
        row(3, outcome="expired", received=None),
        row(4, outcome="dead-lettered", receive_count=3),
        row(4, queue="dead", settled=9),
        row(5, outcome="dead-lettered"),
        row(6),
        row(6, settled=7),
        row(7),
        row(7, settled=None),
        row(8, received=100, settled=101, receive_count=2),
        row(9, received=None, settled=None),
        row(10),
    )
    sent = log(spark, tmp_path, 1, 2, 3, 4, 5, 6, 7, 8, 8, 9, 11)

    found = reconcile.fates(messages, sent, now=NOW, late=60.0).persist()

    fates = {UUID(r["message_id"]).int: r["fate"] for r in found.collect()}
    assert fates == {
        1: "deleted", 2: "waiting", 3: "expired", 4: "deleted", 5: "lost", 6: "duplicated",
        7: "duplicated", 8: "deleted", 9: "waiting", 10: "deleted", 11: "lost",
    }  # fmt: skip
    (total,) = reconcile.totals(found).collect()
    assert total.asDict() == {
        "queue": "orders", "messages": 11, "acknowledged": 10, "repeated": 1, "unacknowledged": 1,
        "waiting": 2, "deleted": 4, "expired": 1, "purged": 0, "redriven": 0, "erased": 0,
        "unknown": 0, "lost": 2, "duplicated": 2, "late": 2, "redelivered": 2,
    }  # fmt: skip


def test_reconcile_does_not_call_lost_what_the_history_cannot_know(
    spark: "SparkSession", tmp_path: Path
) -> None:
    sent = log(spark, tmp_path, 1, 2).unionByName(
        log(spark, tmp_path, 3, queue="https://localhost/000000000000/silent")
    )

    found = reconcile.fates(
        frame(spark, row(1)), sent, now=NOW, late=60.0, history_since=NOON, unkept=["silent"]
    )

    assert sorted((r["queue"], r["fate"]) for r in found.collect()) == [
        ("orders", "deleted"), ("orders", "lost"), ("silent", "unknown"),
    ]  # fmt: skip


def test_reconcile_without_a_log_wants_one_end_for_all_that_was_stored(
    spark: "SparkSession",
) -> None:
    messages = frame(
        spark,
        row(1),
        row(2, outcome="dead-lettered"),
        row(3, outcome="dead-lettered"),
        row(3, queue="dead", settled=None),
    )

    found = reconcile.fates(messages, None, now=NOW, late=60.0, history_since=at_noon(-1))

    assert sorted((r["queue"], r["fate"], r["acknowledged"]) for r in found.collect()) == [
        ("orders", "deleted", 0), ("orders", "lost", 0), ("orders", "waiting", 0),
    ]  # fmt: skip


def test_log_that_cannot_be_read_is_refused(spark: "SparkSession", tmp_path: Path) -> None:
    path = tmp_path / "sent.jsonl"
    path.write_text('{"message_id": "a", "queue": "q", "sent_at": 1795176000.5}\nrubbish\n{}\n')

    with pytest.raises(ReconcileError, match=r"2 lines of .*sent\.jsonl are not of the form"):
        reconcile.sends(spark, str(path))


def test_times_of_a_log_may_be_numbers(spark: "SparkSession", tmp_path: Path) -> None:
    path = tmp_path / "sent.jsonl"
    lines = [NOON.timestamp() + 0.5, "2026-11-20T13:00:00+01:00", "2026-11-20 12:00:00"]
    path.write_text(
        "\n".join(json.dumps({"message_id": "a", "queue": "q", "sent_at": at}) for at in lines)
    )

    found = [row["sent_at"] for row in reconcile.sends(spark, str(path)).collect()]

    assert found == [at.replace(tzinfo=None) for at in (at_noon(0.5), NOON, NOON)]


def test_reconcile_of_a_database_accounts_for_every_send(
    spark: "SparkSession", source: "Source", owner: Connection, tmp_path: Path
) -> None:
    owner.execute("select skipmq.create_queue('orders')")
    sent = owner.execute(
        "select skipmq.send_message('orders', 'x')::text from generate_series(1, 30)"
    ).fetchall()
    owner.execute(
        "select skipmq.delete_messages(skipmq.queue_id('orders'), array_agg(id),"
        " array_agg(receive_count), array_agg(message_id))"
        " from skipmq.receive_messages(skipmq.queue_id('orders'), 10)"
    )
    path = tmp_path / "sent.jsonl"
    path.write_text(
        "\n".join(
            json.dumps({"message_id": i, "queue": "orders", "sent_at": NOON.isoformat()})
            for (i,) in [*sent, ("00000000-0000-0000-0000-000000000001",)]
        )
    )

    with snapshot.taken(source) as taken:
        messages = snapshot.everything(spark, taken).persist()
        known = sources.history_scope(taken.source)
        found = reconcile.totals(
            reconcile.fates(
                messages, reconcile.sends(spark, str(path)), now=NOW, late=60, history_since=None,
                unkept=known.unkept,
            )
        ).collect()  # fmt: skip

    (one,) = found
    assert (one["acknowledged"], one["deleted"], one["waiting"], one["lost"]) == (
        31,
        10,
        20,
        1,
    )
    assert known.since is not None
