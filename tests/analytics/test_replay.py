"""Replays, on a real database."""

import json
import subprocess
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

pytest.importorskip("pyspark")

from skipmq.analytics import frames, replay
from skipmq.analytics.errors import ReplayError
from skipmq.analytics.lake.export import export
from skipmq.protocol.identity import QueueName
from support.analytics import settle
from support.forks import OnHistory
from support.http import eventually
from support.postgres import Connection
from support.settled import frame, row
from support.sql import Queue, number, until_blocked
from support.staging import staged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skipmq.analytics.jdbc import Source


def queue(owner: Connection, name: str, **attributes: str) -> QueueName:
    if name.endswith(".fifo"):
        attributes["FifoQueue"] = "true"
    owner.execute("select skipmq.create_queue(%s, %s)", (name, json.dumps(attributes)))
    return QueueName("000000000000", "us-east-1", name)


def again(
    owner: Connection,
    to: QueueName,
    rows: Iterable[dict[str, Any]],
    *,
    name: str = "first",
    rate: int | None = None,
) -> list[int]:
    part = replay.stage(owner, name, to, rows)
    return [*replay.send(owner, name, to, part, rate=rate)]


def bodies(owner: Connection, to: QueueName) -> list[str]:
    rows = owner.execute(
        "select body from skipmq_views.message where queue = %s order by id", (to.name,)
    ).fetchall()
    return [body for (body,) in rows]


def test_replay_sends_each_message_once_in_order_with_its_origin(owner: Connection) -> None:
    to = queue(owner, "again")
    red = '{"colour": {"DataType": "String", "StringValue": "red"}}'
    rows = [row(n, body=f"body {n}", attributes=red) for n in range(1200)]

    sent = again(owner, to, rows)
    repeated = again(owner, to, [*rows, row(2000, body="new")])
    other = again(owner, to, rows[:1], name="second")

    assert sent == [500, 500, 200]
    assert repeated == []
    assert other == [1]
    assert bodies(owner, to) == [*(f"body {n}" for n in range(1200)), "body 0"]
    (attributes,) = owner.execute(
        "select attributes::jsonb from skipmq.message where body = 'body 7'"
    ).fetchone() or (None,)
    assert attributes == json.loads(red) | {
        "skipmq.replayed_from": {
            "DataType": "String",
            "StringValue": "orders/00000000-0000-0000-0000-000000000007",
        }
    }
    assert staged(owner) == 0


def test_replay_that_was_broken_off_goes_on_where_it_was(owner: Connection) -> None:
    to = queue(owner, "again")
    rows = [row(n, body=str(n)) for n in range(30)]
    part = replay.stage(owner, "r", to, rows)

    first = next(replay.send(owner, "r", to, part, rate=20))
    rest = again(owner, to, [*rows, row(30, body="new")], name="r", rate=1000)

    assert (first, rest) == (20, [10])
    assert bodies(owner, to) == [str(n) for n in range(30)]


# A process that sends again what a replay has staged, and says so of each part.
SENDER = """
import sys
from uuid import UUID
import psycopg
from skipmq.analytics import replay
from skipmq.protocol.identity import QueueName
url, name, part, rate = sys.argv[1:]
to = QueueName("000000000000", "us-east-1", name)
staged = replay.Staged(UUID(part), 1500, 300 if name.endswith(".fifo") else 0)
with psycopg.connect(url, autocommit=True, application_name="sender") as connection:
    for sent in replay.send(connection, "r", to, staged, rate=int(rate) or None):
        print(sent, flush=True)
"""
HOLD = """
create function public.hold() returns trigger language plpgsql as
  $$ begin perform pg_advisory_xact_lock(7); return new; end $$;
create trigger hold before insert on skipmq.message
  for each row when (new.body = '600') execute function public.hold()
"""


@pytest.mark.parametrize(
    ("name", "rate", "left"),
    [
        pytest.param("again", 0, 1500, marks=pytest.mark.slow),
        pytest.param("again", 400, 1100, marks=pytest.mark.slow),
        ("again.fifo", 0, 900),
    ],
)
def test_replay_killed_in_the_middle_and_repeated_sends_each_message_once(
    owner: Connection, database: str, name: str, rate: int, left: int
) -> None:
    to = queue(owner, name)
    group = {"group_id": None}
    rows = [
        row(n, body=f"{n}", **(group if name == "again" else {"group_id": f"g{n % 300}"}))
        for n in range(1500)
    ]
    part = replay.stage(owner, "r", to, rows)
    owner.execute(HOLD)
    # It waits for this lock within a later chunk, and dies there.
    with psycopg.connect(database) as other:
        other.execute("select pg_advisory_lock(7)")
        words = [database, to.name, part.part, rate]
        command = [sys.executable, "-c", SENDER, *map(str, words)]
        with OnHistory(command, stdout=subprocess.PIPE, text=True) as sender:
            until_blocked(owner)
            sender.kill()
            assert sender.stdout is not None
            output = sender.stdout.read().split()
        owner.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where application_name = 'sender'"
        )
    eventually(
        lambda: (
            not number(
                owner, "select count(*) from pg_stat_activity where application_name = 'sender'"
            )
        )
    )
    owner.execute("drop trigger hold on skipmq.message")

    found = len(rows) - len(bodies(owner, to))
    rest = again(owner, to, rows, name="r")
    more = again(owner, to, rows, name="r")

    assert output
    assert (found, sum(rest), more) == (left, left, [])
    assert bodies(owner, to) == [str(n) for n in range(1500)]
    # What was staged for a transaction that was rolled back expires.
    assert staged(owner) == (1500 if left == 1500 else 0)


def test_replay_without_a_rate_sends_all_or_nothing(owner: Connection) -> None:
    to = queue(owner, "again")
    part = replay.stage(owner, "r", to, [row(n, body=str(n)) for n in range(600)])
    sending = replay.send(owner, "r", to, part)

    next(sending)
    sending.close()

    assert bodies(owner, to) == []
    assert staged(owner) == 600


def test_replay_to_a_fifo_queue_keeps_the_order_of_groups(owner: Connection) -> None:
    to = queue(owner, "again.fifo", ContentBasedDeduplication="true")
    rows = [row(n, body="same", group_id=f"g{n % 300}", trace_header=str(n)) for n in range(900)]

    sent = again(owner, to, rows)

    assert sent == [200, 200, 200, 200, 100]
    order = owner.execute(
        "select group_id, array_agg(trace_header::int order by sequence_number)"
        " from skipmq.message m join skipmq_views.queue q using (queue_id) where q.queue = %s"
        " group by 1",
        (to.name,),
    ).fetchall()
    assert len(order) == 300
    assert all(numbers == sorted(numbers) and len(numbers) == 3 for _, numbers in order)


def test_replay_gives_messages_without_a_group_that_of_their_queue(owner: Connection) -> None:
    to = queue(owner, "again.fifo")

    again(owner, to, [row(1, body="x")])

    assert owner.execute("select group_id from skipmq.message where body = 'x'").fetchone() == (
        "orders",
    )


def test_replay_refuses_what_the_queue_would_not_take(owner: Connection) -> None:
    to = queue(owner, "small", MaximumMessageSize="1024")

    with pytest.raises(
        ReplayError,
        match=r"orders/.*2 is refused with the attribute skipmq.replayed_from: .*1024 bytes",
    ):
        again(owner, to, [row(1, body="x"), row(2, body="x" * 1024)])

    assert (bodies(owner, to), staged(owner)) == ([], 0)


def test_replay_is_of_a_queue_that_exists(owner: Connection) -> None:
    with pytest.raises(ReplayError, match="queue three does not exist"):
        replay.target([owner], QueueName("000000000000", "us-east-1", "three"))


def test_messages_are_selected_once_each_in_the_order_of_their_sends(
    spark: "SparkSession",
) -> None:
    history = frame(
        spark,
        row(3, sent=1, settled=9, body="c", queue="dead"),
        row(3, sent=1, settled=5, body="c", outcome="dead-lettered"),
        row(1, body="a"),
        row(2, body=None),
        row(4, body="d", queue="mails"),
    )

    found = replay.selected(history, "queue in ('orders', 'dead') and receive_count > 0")

    assert [(r["id"], r["queue"]) for r in found.collect()] == [
        (1, "orders"), (2, "orders"), (3, "dead"),
    ]  # fmt: skip
    assert [
        (r["queue"], r["outcome"], r["messages"], r["without_body"]) for r in replay.overview(found)
    ] == [("dead", "deleted", 1, 0), ("orders", "deleted", 2, 1)]


def test_replay_from_the_history_brings_back_what_was_deleted(
    spark: "SparkSession", source: "Source", owner: Connection
) -> None:
    orders = queue(owner, "orders", HistoryMode="full")
    sent_before = Queue(owner, HistoryMode="full")
    sent_before.send(*(f"é {n}" for n in range(1, 6)))
    sent_before.delete(*sent_before.receive())

    found = replay.selected(frames.history(spark, source, bodies=True), "body > 'é 2'")
    sent = again(owner, orders, found.toLocalIterator())

    assert sent == [3]
    assert bodies(owner, orders) == ["é 3", "é 4", "é 5"]


def test_replays_of_many_from_the_lake_and_the_history_send_each_once(
    spark: "SparkSession", source: "Source", owner: Connection, place: str
) -> None:
    to = queue(owner, "again.fifo")
    settle(owner, 1300, HistoryMode="full")
    export(spark, source, place)

    from_lake = replay.selected(frames.lake(spark, place), "body > 'body 3'")
    sent = again(owner, to, from_lake.toLocalIterator())
    rest = replay.selected(frames.history(spark, source, bodies=True), "body <= 'body 3'")
    more = again(owner, to, rest.toLocalIterator(), name="second")

    late = [f"body {n}" for n in range(1300) if f"body {n}" > "body 3"]
    early = [f"body {n}" for n in range(1300) if f"body {n}" <= "body 3"]
    assert (sum(sent), sum(more)) == (len(late), len(early))
    assert len(late) > 700
    assert bodies(owner, to) == late + early
