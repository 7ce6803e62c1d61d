"""What is known of the low watermark."""

from datetime import datetime
from typing import NamedTuple

import psycopg
import pytest

from support.http import eventually
from support.postgres import Connection
from support.sql import Queue, number


class Probe(NamedTuple):
    """What a probe returns, as psycopg reads it."""

    read_at: datetime
    running: list[int]
    xid: int
    first_visible_at: datetime | None

    def is_past(self, xid: int) -> bool:
        return all(running > xid for running in self.running)


def probe(connection: Connection, queue: Queue, start: datetime | None = None) -> Probe:
    row = connection.execute(
        "select read_at, running, xid, first_visible_at from skipmq.low_watermark(%s, %s)",
        (queue.id, start),
    ).fetchone()
    assert row is not None
    return Probe(*row)


def probe_past(connection: Connection, queue: Queue, xid: int) -> Probe:
    """Probe when all transactions up to this one are done, in other databases too."""

    def found() -> Probe | None:
        seen = probe(connection, queue)
        return seen if seen.is_past(xid) else None

    seen: Probe = eventually(found, why=f"transaction {xid} is past")
    return seen


def test_probe_finds_the_first_message_from_a_time_on(orders: Queue) -> None:
    orders.send("first")
    between = probe(orders.connection, orders).read_at
    orders.send("second")

    first = probe(orders.connection, orders).first_visible_at
    second = probe(orders.connection, orders, between).first_visible_at

    assert first is not None
    assert second is not None
    assert first < between < second


def test_probe_of_an_empty_queue_finds_nothing(orders: Queue) -> None:
    assert probe(orders.connection, orders).first_visible_at is None


def test_probe_while_a_writer_runs_says_that_it_runs(orders: Queue, database: str) -> None:
    with psycopg.connect(database) as writer:
        before = probe(orders.connection, orders)
        orders.on(writer).send("late")
        # Who began before the first probe is done.
        during = probe_past(orders.connection, orders, before.xid)
        meanwhile = probe(orders.connection, orders)
        writer.commit()
    after = probe_past(orders.connection, orders, during.xid)

    assert not meanwhile.is_past(during.xid)  # The writer is not done.
    assert after.first_visible_at is not None


def test_probe_under_a_snapshot_held_open_says_that_nobody_writes(
    orders: Queue, database: str
) -> None:
    with psycopg.connect(database) as reader:
        reader.execute("set transaction isolation level repeatable read")
        reader.execute("select count(*) from skipmq.queue")
        first = probe(orders.connection, orders)

        assert probe_past(orders.connection, orders, first.xid)


@pytest.mark.parametrize("time", ["-infinity", "infinity"])
def test_probe_of_a_message_that_was_put_out_of_time_by_hand_succeeds(
    orders: Queue, time: str
) -> None:
    orders.send("parked")
    orders.connection.execute(
        "update skipmq.message set visible_at = %s where queue_id = %s", (time, orders.id)
    )

    first = probe(orders.connection, orders).first_visible_at

    assert first is None if time == "infinity" else first is not None


def test_probe_while_a_held_transaction_is_open_begins_where_it_should(
    orders: Queue, database: str
) -> None:
    with psycopg.connect(database) as held:
        orders.on(held).send("late")
        # A snapshot has only the transactions that are older than one that is done.
        probe(orders.connection, orders)
        between = probe(orders.connection, orders)
        orders.send("later")
        xid = number(held, "select pg_current_xact_id()::text::bigint")
        assert xid in between.running

        def first() -> datetime | None:
            return number(  # type: ignore[no-any-return]
                orders.connection,
                "select first_visible_at from skipmq.low_watermark(%s, %s, %s::bigint[], '{null}')",
                orders.id,
                between.read_at,
                [xid],
            )

        during = first()
        held.commit()
        after = first()

    assert during is not None
    assert after is not None
    assert after < between.read_at < during
