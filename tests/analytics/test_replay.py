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
from skipmq.analytics.postgres import replays
from skipmq.analytics.postgres.replays import Target
from skipmq.protocol.identity import QueueName
from support.analytics import settle
from support.http import eventually
from support.postgres import Connection, as_node
from support.settled import frame, row
from support.sql import number, until_blocked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skipmq.analytics.jdbc import Source


def queue(owner: Connection, name: str, **attributes: str) -> Target:
    if name.endswith(".fifo"):
        attributes["FifoQueue"] = "true"
    owner.execute("select skipmq.create_queue(%s, %s)", (name, json.dumps(attributes)))
    return replay.target([owner], QueueName("000000000000", "us-east-1", name))[1]


def again(
    owner: Connection,
    to: Target,
    rows: Iterable[dict[str, Any]],
    *,
    name: str = "first",
    rate: int | None = None,
) -> list[int]:
    staged = replay.stage(owner, name, to, rows)
    return [*replay.send(owner, name, to, staged, rate=rate)]


def bodies(owner: Connection, to: Target) -> list[str]:
    rows = owner.execute(
        "select body from skipmq.message where queue_id = %s order by id", (to.id,)
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
    assert repeated == [1]
    assert other == [1]
    assert bodies(owner, to) == [*(f"body {n}" for n in range(1200)), "new", "body 0"]
    (attributes,) = owner.execute(
        "select attributes::jsonb from skipmq.message where body = 'body 7'"
    ).fetchone() or (None,)
    assert attributes == json.loads(red) | {
        "skipmq.replayed_from": {
            "DataType": "String",
            "StringValue": "orders/00000000-0000-0000-0000-000000000007",
        }
    }
    left = owner.execute("select count(*) from skipmq.replay_message where body is not null")
    assert left.fetchone() == (0,)


def test_replay_that_was_broken_off_goes_on_where_it_was(owner: Connection) -> None:
    to = queue(owner, "again")
    rows = [row(n, body=str(n)) for n in range(30)]
    staged = replay.stage(owner, "r", to, rows)

    first = next(replay.send(owner, "r", to, staged, rate=20))
    # The lock goes with the connection.
    owner.execute("select pg_advisory_unlock_all()")
    rest = again(owner, to, rows, name="r", rate=1000)

    assert (first, rest) == (20, [10])
    assert bodies(owner, to) == [str(n) for n in range(30)]


# A process that sends again what a replay has staged, and says so of each part.
SENDER = """
import sys
import psycopg
from skipmq.analytics import replay
from skipmq.analytics.postgres import replays
url, name, place, fifo, most, rate = sys.argv[1:]
to = replay.Target(name, int(place), fifo == "True", int(most))
with psycopg.connect(url, autocommit=True, application_name="sender") as connection:
    staged = replays.state(connection, "r")
    for sent in replay.send(connection, "r", to, staged, rate=int(rate) or None):
        print(sent, flush=True)
"""


@pytest.mark.parametrize(
    ("name", "rate", "left"), [("again", 0, 1500), ("again", 400, 1100), ("again.fifo", 0, 900)]
)
def test_replay_killed_in_the_middle_and_repeated_sends_each_message_once(
    owner: Connection, database: str, name: str, rate: int, left: int
) -> None:
    to = queue(owner, name)
    rows = [row(n, body=f"{n}", group_id=f"g{n % 300}") for n in range(1500)]
    replay.stage(owner, "r", to, rows)
    # It waits for this lock within its second part, and dies there.
    with psycopg.connect(database) as other:
        other.execute(
            "select from skipmq.replay_message where message_id = (select message_id"
            " from skipmq.replay_message order by place offset 600 limit 1) for update"
        )
        words = [database, to.name, to.id, to.fifo, to.maximum_bytes, rate]
        with subprocess.Popen(
            [sys.executable, "-c", SENDER, *map(str, words)], stdout=subprocess.PIPE, text=True
        ) as sender:
            until_blocked(owner)
            sender.kill()
            assert sender.stdout is not None
            output = sender.stdout.read().split()
    eventually(
        lambda: (
            not number(
                owner, "select count(*) from pg_stat_activity where application_name = 'sender'"
            )
        )
    )

    found = replays.state(owner, "r").to_send
    rest = again(owner, to, rows, name="r")
    more = again(owner, to, rows, name="r")

    assert output
    assert (found, sum(rest), more) == (left, left, [])
    assert bodies(owner, to) == [str(n) for n in range(1500)]


def test_replay_without_a_rate_sends_all_or_nothing(owner: Connection) -> None:
    to = queue(owner, "again")
    staged = replay.stage(owner, "r", to, [row(n, body=str(n)) for n in range(600)])
    sending = replay.send(owner, "r", to, staged)

    next(sending)
    sending.close()

    assert bodies(owner, to) == []
    assert replays.state(owner, "r").to_send == 600


def test_replay_to_a_fifo_queue_keeps_the_order_of_groups(owner: Connection) -> None:
    to = queue(owner, "again.fifo", ContentBasedDeduplication="true")
    rows = [row(n, body="same", group_id=f"g{n % 300}", trace_header=str(n)) for n in range(900)]

    sent = again(owner, to, rows)

    assert sent == [200, 200, 200, 200, 100]
    order = owner.execute(
        "select group_id, array_agg(trace_header::int order by sequence_number)"
        " from skipmq.message where queue_id = %s group by 1",
        (to.id,),
    ).fetchall()
    assert len(order) == 300
    assert all(numbers == sorted(numbers) and len(numbers) == 3 for _, numbers in order)


def test_replay_gives_messages_without_a_group_that_of_their_queue(owner: Connection) -> None:
    to = queue(owner, "again.fifo")

    again(owner, to, [row(1, body="x")])

    assert owner.execute("select group_id from skipmq.message where body = 'x'").fetchone() == (
        "orders",
    )


def test_replay_does_not_replay_what_it_has_sent_itself(owner: Connection) -> None:
    to = queue(owner, "orders")
    again(owner, to, [row(1, body="x")])
    (made,) = owner.execute("select message_id::text from skipmq.replay_message").fetchone() or ()

    copy = row(77, body="x") | {"message_id": made}

    assert again(owner, to, [row(1, body="x"), copy]) == []
    assert again(owner, to, [copy], name="second") == [1]


def test_replay_refuses_what_the_queue_would_not_take(owner: Connection) -> None:
    to = queue(owner, "small", MaximumMessageSize="1024")

    with pytest.raises(
        ReplayError,
        match=r"orders/.*2 has 11.. bytes with the attribute skipmq.replayed_from; small accepts",
    ):
        again(owner, to, [row(1, body="x"), row(2, body="x" * 1024)])

    assert bodies(owner, to) == []


def test_replay_of_one_name_has_one_target(owner: Connection) -> None:
    again(owner, queue(owner, "one"), [row(1, body="x")])

    with pytest.raises(ReplayError, match="the replay first is to one: use another"):
        again(owner, queue(owner, "two"), [row(2, body="y")])
    with pytest.raises(ReplayError, match="queue three does not exist"):
        replay.target([owner], QueueName("000000000000", "us-east-1", "three"))[1]


def test_replay_runs_once_at_a_time(owner: Connection, database: str) -> None:
    to = queue(owner, "again")
    staged = replay.stage(owner, "r", to, [row(n, body=str(n)) for n in range(2)])
    sending = replay.send(owner, "r", to, staged, rate=1)
    next(sending)

    with (
        psycopg.connect(as_node(database), autocommit=True) as node,
        pytest.raises(ReplayError, match="is already running"),
    ):
        next(replay.send(node, "r", to, staged))


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
    owner.execute("select skipmq.send_message('orders', 'é ' || n) from generate_series(1, 5) n")
    owner.execute(
        "select skipmq.delete_messages(%s, array_agg(id), array_agg(receive_count),"
        " array_agg(message_id))"
        " from skipmq.receive_messages(%s, 10)",
        (orders.id, orders.id),
    )

    found = replay.selected(frames.history(spark, source, bodies=True), "body > 'é 2'")
    sent = again(owner, orders, found.toLocalIterator())

    assert sent == [3]
    assert bodies(owner, orders) == ["é 3", "é 4", "é 5"]


def test_replay_of_many_from_the_lake_and_the_history_sends_each_once(
    spark: "SparkSession", source: "Source", owner: Connection, place: str
) -> None:
    to = queue(owner, "again.fifo")
    settle(owner, 1300, HistoryMode="full")
    export(spark, source, place)

    from_lake = replay.selected(frames.lake(spark, place), "body > 'body 3'")
    sent = again(owner, to, from_lake.toLocalIterator())
    both = replay.selected(frames.history(spark, source, bodies=True), "queue = 'orders'")
    more = again(owner, to, both.toLocalIterator())

    late = [f"body {n}" for n in range(1300) if f"body {n}" > "body 3"]
    early = [f"body {n}" for n in range(1300) if f"body {n}" <= "body 3"]
    assert (sum(sent), sum(more)) == (len(late), len(early))
    assert len(late) > 700
    assert bodies(owner, to) == late + early
