"""Erasure, in a real database and a real lake."""

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from skipmq.analytics import frames, reconcile, replay, snapshot
from skipmq.analytics.lake import export, forget
from skipmq.analytics.lake.forget import MessageCount
from skipmq.analytics.lake.tables import Lake
from skipmq.analytics.postgres import erasure
from skipmq.analytics.postgres.erasure import ConditionError
from skipmq.protocol.identity import QueueName
from support import lakes
from support.postgres import Connection
from support.settled import NOON, row
from support.staging import stage, staged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skipmq.analytics.jdbc import Source

# What a client gives of a message.
CONTENTS = ("body", "attributes", "group_id", "deduplication_id", "sender", "trace_header")
ALICE = "body like '%alice%' or group_id = 'alice'"


def fill(owner: Connection) -> None:
    """Delete four messages and leave four, half of them of alice; the same in a FIFO queue."""
    full = json.dumps({"HistoryMode": "full"})
    fifo = json.dumps({"HistoryMode": "full", "FifoQueue": "true"})
    owner.execute("select skipmq.create_queue('orders', %s)", (full,))
    owner.execute("select skipmq.create_queue('steps.fifo', %s)", (fifo,))
    for name in ("alice", "bob") * 4:
        owner.execute("select skipmq.send_message('orders', %s)", (f'{{"who": "{name}"}}',))
    owner.execute(
        "select skipmq.delete_messages(skipmq.queue_id('orders'), array_agg(id),"
        " array_agg(receive_count), array_agg(message_id))"
        " from skipmq.receive_messages(skipmq.queue_id('orders'), 4)"
    )
    for n, group in enumerate(("alice", "alice", "bob", "alice", "bob")):
        owner.execute(
            "select skipmq.send_fifo_message('steps.fifo', %s, %s, %s)",
            (f"step {n}", group, str(n)),
        )


def today(owner: Connection) -> str:
    row = owner.execute("select (now() at time zone 'UTC')::date::text").fetchone()
    assert row is not None
    return str(row[0])


def test_forget_erases_from_live_history_and_lake_and_nothing_else(
    spark: "SparkSession", source: "Source", owner: Connection, tmp_path: Path
) -> None:
    fill(owner)
    path = str(tmp_path / "lake")
    export.export(spark, source, path)
    day = today(owner)

    lake = Lake.open(spark, path)
    before = forget.find([owner], lake, ALICE)
    erased: dict[str, int] = {}
    for place, number in forget.erase([owner], lake, ALICE):
        erased[place] = erased.get(place, 0) + number
    forget.vacuum([owner], [day])
    after = forget.find([owner], lake, ALICE)
    rest = forget.find([owner], lake, "true")

    assert before == [
        MessageCount("live", "orders", None, 2),
        MessageCount("live", "steps.fifo", None, 3),
        MessageCount("history", "orders", day, 2),
        MessageCount("lake", "orders", day, 2),
    ]
    assert erased == {"live": 5, "history": 2, "lake": 2}
    assert after == []
    assert [(f.place, f.queue, f.messages) for f in rest] == [
        ("live", "orders", 2),
        ("live", "steps.fifo", 2),
        ("history", "orders", 2),
        ("lake", "orders", 2),
    ]
    left = {row["body"] for row in frames.lake(spark, path).collect()}
    assert left == {'{"who": "bob"}'}
    assert not any(b"alice" in file.read_bytes() for file in (tmp_path / "lake").rglob("*.json"))
    report = forget.report(before, after, erased)
    assert report["remaining"] == []
    assert report["found"][3] == {"place": "lake", "queue": "orders", "day": day, "messages": 2}


def test_reconcile_does_not_call_lost_what_was_forgotten(
    spark: "SparkSession", source: "Source", owner: Connection, tmp_path: Path
) -> None:
    fill(owner)
    sent = tmp_path / "sent.jsonl"
    ids = owner.execute(
        "select message_id from skipmq_views.message union all"
        " select message_id from skipmq_views.history"
    ).fetchall()
    lines = [{"message_id": i, "queue": "orders", "sent_at": "2026-11-21"} for (i,) in ids]
    sent.write_text("\n".join(map(json.dumps, lines)))

    list(forget.erase([owner], None, ALICE))

    with snapshot.taken(source) as taken:
        messages = snapshot.everything(spark, taken)
        known = {"now": NOON, "late": 60.0, "erased": snapshot.erased(spark, taken)}
        log = reconcile.sends(spark, str(sent))
        found = reconcile.totals(reconcile.fates(messages, log, **known)).collect()  # type: ignore[arg-type]
    totals = {
        fate: sum(row[fate] for row in found) for fate in ("deleted", "waiting", "erased", "lost")
    }
    assert len(ids) == 13
    assert totals == {"deleted": 2, "waiting": 4, "erased": 7, "lost": 0}
    assert not owner.execute(
        "select from skipmq_views.erased_message e where e::text ilike '%alice%'"
    ).fetchall()


def test_forget_leaves_queues_that_go_on_working(owner: Connection) -> None:
    fill(owner)

    erased: Counter[str] = Counter()
    for place, messages in forget.erase([owner], None, ALICE):
        erased[place] += messages

    counts = owner.execute("select visible from skipmq.count_messages(skipmq.queue_id('orders'))")
    steps = owner.execute(
        "select body from skipmq.receive_fifo_messages(skipmq.queue_id('steps.fifo'), 10)"
    ).fetchall()
    groups = owner.execute(
        "select count(*) from skipmq.message_group where queue_id > 0"
    ).fetchone()
    owner.execute("select skipmq.send_fifo_message('steps.fifo', 'new', 'alice', '9')")
    new = owner.execute(
        "select body from skipmq.receive_fifo_messages(skipmq.queue_id('steps.fifo'), 10)"
    ).fetchall()

    assert erased == {"live": 5, "history": 2}
    assert counts.fetchone() == (2,)
    assert steps == [("step 2",), ("step 4",)]
    assert groups == (1,)
    assert new == [("new",)]


def test_forget_knows_columns_that_live_messages_have_not(owner: Connection) -> None:
    fill(owner)

    found = forget.find([owner], None, "outcome = 'deleted' and body like '%bob%' -- a note")

    assert [(f.place, f.messages) for f in found] == [("history", 2)]


def test_forget_erases_what_a_replay_has_staged_and_the_replay_goes_on(owner: Connection) -> None:
    owner.execute("select skipmq.create_queue('again')")
    to = QueueName("000000000000", "us-east-1", "again")
    names = ("alice", "bob", "alice", "bob")
    rows = [row(n, body=f"{n} of {name}") for n, name in enumerate(names)]
    part = replay.stage(owner, "r", to, rows)
    next(replay.send(owner, "r", to, part, rate=1))

    erased = dict(forget.erase([owner], None, "body like '%alice'"))

    assert erased == {"staged": 2, "live": 1}
    assert [*replay.send(owner, "r", to, part)] == [2]
    assert staged(owner) == 0


def test_forget_erases_what_spark_has_staged(owner: Connection) -> None:
    owner.execute("select skipmq.create_queue('orders')")
    stage(owner, "of alice", "of bob", "of alice", "of bob", group_ids=[None, "alice", None, None])

    found = forget.find([owner], None, f"queue = 'orders' and ({ALICE})")
    erased = list(forget.erase([owner], None, ALICE))

    assert found == [MessageCount("staged", "orders", None, 3)]
    assert erased == [("staged", 3)]
    left = owner.execute("select body, group_id from skipmq.staged_message").fetchall()
    assert left == [("of bob", None)]


def test_forget_erases_what_ended_tasks_looked_for(owner: Connection) -> None:
    owner.execute(
        "insert into skipmq.move_task (task_id, source_arn, status, to_move, started_at,"
        " paid_until, kind, body_contains, attribute_value, filter)"
        " values (gen_random_uuid(), 'arn',"
        " 'COMPLETED', 0, now(), now(), 'delete', 'alice', 'alice', '{\"path\": \"alice\"}')"
    )

    assert list(forget.erase([owner], None, "false")) == []

    (task,) = owner.execute("select to_jsonb(t)::text from skipmq.move_task t").fetchone() or ("",)
    assert "alice" not in task


def test_forget_erases_what_waits_for_an_endpoint(owner: Connection) -> None:
    owner.execute("select skipmq.create_topic('paid')")
    owner.execute(
        "insert into skipmq.subscription (topic_id, subscription_id, protocol, endpoint, owner,"
        " principal, created_at) select topic_id, gen_random_uuid(), 'http', 'http://shop/',"
        " account, account, now() from skipmq.topic"
    )
    owner.execute(
        "insert into skipmq.http_delivery (delivery_id, topic_id, subscription_id, message_id,"
        " body, due_at) select gen_random_uuid(), topic_id, subscription_id, gen_random_uuid(),"
        " 'of ' || who, now() from skipmq.subscription, unnest('{alice,bob}'::text[]) who"
    )

    found = forget.find([owner], None, "body like '%alice'")

    assert found == [MessageCount("http", "paid", None, 1)]
    assert list(forget.erase([owner], None, "body like '%alice'")) == [("http", 1)]
    assert owner.execute("select body from skipmq.http_delivery").fetchall() == [("of bob",)]


def test_forget_knows_each_table_that_has_bodies_or_groups(owner: Connection) -> None:
    found = owner.execute(
        "select distinct c.table_name from information_schema.columns c"
        " join information_schema.tables t using (table_schema, table_name)"
        " where c.table_schema = 'skipmq' and t.table_type = 'BASE TABLE'"
        " and c.column_name = any (%s) and c.table_name !~ '^history_' order by 1",
        ([*CONTENTS, "body_contains", "attribute_value", "filter"],),
    ).fetchall()

    tables = [name for (name,) in found]
    assert tables == sorted([*erasure.TABLES, *erasure.SETTINGS]), (
        "forget must erase in these: erase there, and name the table"
    )


def test_forget_erases_in_a_lake_of_another_database_too(
    spark: "SparkSession", owner: Connection, tmp_path: Path
) -> None:
    rows = [row(n, body=name) for n, name in enumerate(("alice", "bob", "alice"))]
    lake = Lake.open(spark, lakes.write(tmp_path / "lake", rows, {}))

    assert list(forget.erase([owner], lake, ALICE)) == [("lake", 2)]


def test_forget_of_many_goes_in_steps(owner: Connection) -> None:
    owner.execute("select skipmq.create_queue('orders')")
    owner.execute("select skipmq.send_message('orders', 'x') from generate_series(1, 1100)")

    steps = list(forget.erase([owner], None, "queue = 'orders'"))

    assert steps == [("live", 500), ("live", 500), ("live", 100)]
    assert forget.find([owner], None, "true") == []


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("true) h; delete from skipmq.message; select (1", "PostgreSQL rejected the condition"),
        ("true); commit; delete from skipmq.message; --", "PostgreSQL rejected the condition"),
        (
            "exists (select from skipmq.purge_queue(skipmq.queue_id('orders')))",
            "the condition must not write",
        ),
    ],
)
def test_counting_what_would_be_forgotten_writes_nothing(
    owner: Connection, condition: str, reason: str
) -> None:
    fill(owner)
    before = forget.find([owner], None, "true")

    with pytest.raises(ConditionError, match=reason):
        forget.find([owner], None, condition)

    assert forget.find([owner], None, "true") == before
