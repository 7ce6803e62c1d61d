from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from support.damage import damaged_copy, pages_of
from support.postgres import Connection, Databases
from support.sql import Queue, advance, number, redrive_policy

BODY = "x" * 200
COUNT = 400
RECEIVE = "select * from skipmq.receive_readable_messages(%s, %s, %s, 'off', %s, %s)"


class Damaged:
    """A queue of numbered messages, those of the middle on a damaged page."""

    def __init__(self, connection: Connection, queue: Queue, lost: set[int]) -> None:
        self.connection, self.queue, self.lost = connection, queue.on(connection), lost
        self.low: Any = None
        self.received_low: Any = None

    @property
    def intact(self) -> set[int]:
        return set(range(COUNT)) - self.lost

    def receive(self, limit: int = 100) -> list[int]:
        rows = (
            self.connection.cursor(row_factory=psycopg.rows.dict_row)
            .execute(RECEIVE, (self.queue.id, limit, 600, self.low, self.received_low))
            .fetchall()
        )
        self.low, self.received_low = rows[-1]["low"], rows[-1]["received_low"]
        return [int(row["body"].split()[0]) for row in rows if row["id"] is not None]

    def receive_plainly(self) -> None:
        while self.queue.receive():
            pass

    def receive_all(self) -> list[int]:
        found: list[int] = []
        while some := self.receive():
            found += some
        return found


def filled(owner: Connection, name: str = "orders", **attributes: str) -> Queue:
    queue = Queue(owner, name, **attributes)
    # What it would free decides which of the index pages are full.
    owner.execute("alter table skipmq.message set (autovacuum_enabled = false)")
    # A second apart: steps of doubling length pass over what is between damaged pages, where those
    # after one are sent in less time than those on it.
    for n in range(COUNT):
        advance(owner, f"{n - COUNT} seconds")
        queue.send(f"{n} {BODY}")
    advance(owner, "0 seconds")
    return queue


def on_pages(owner: Connection, pages: list[int]) -> set[int]:
    rows = owner.execute(
        "select split_part(body, ' ', 1)::integer from skipmq.message"
        " where queue_id > 0 and (ctid::text::point)[0]::bigint = any (%s)",
        (pages,),
    )
    return {n for (n,) in rows}


@pytest.fixture
def damaged(databases: Databases, new_database: str) -> Iterator[Damaged]:
    with psycopg.connect(new_database, autocommit=True) as owner:
        queue = filled(owner)
        pages = pages_of(owner, "true")
        assert len(pages) > 8
        chosen = [pages[3], pages[6]]
        lost = on_pages(owner, chosen)
    url = damaged_copy(databases, new_database, "skipmq.message", *chosen)
    with psycopg.connect(url, autocommit=True) as connection:
        yield Damaged(connection, queue, lost)
    databases.drop(url)


def test_claim_of_a_damaged_queue_fails(damaged: Damaged) -> None:
    with pytest.raises(psycopg.errors.DataCorrupted):
        damaged.receive_plainly()


def test_each_intact_message_is_received_once(damaged: Damaged) -> None:
    found = damaged.receive_all()

    assert len(found) == len(set(found))
    assert set(found) == damaged.intact
    assert (min(damaged.lost), max(damaged.lost)) > (0, 10)


def test_bounds_lead_an_ordinary_claim_past_the_damage(damaged: Damaged) -> None:
    found: list[int] = []
    while max(found, default=0) <= max(damaged.lost):
        found += damaged.receive(10)

    row = damaged.connection.execute(
        "select count(*) from skipmq.receive_messages("
        "%s, 500, 600, 'off', %s, null, null, null, null, %s)",
        (damaged.queue.id, damaged.low, damaged.received_low),
    ).fetchone()
    assert row == (len(damaged.intact) - len(found),)


def test_received_messages_on_a_damaged_page_are_passed_over(
    databases: Databases, new_database: str
) -> None:
    with psycopg.connect(new_database, autocommit=True) as owner:
        queue = filled(owner)
        # One by one: those of one time are passed over together.
        received = [queue.receive(limit=1, timeout=600) for _ in range(40)]
        for each in received:
            queue.hide(0, *each)
        page, *_ = pages_of(owner, "shard = 2")
        lost = on_pages(owner, [page])
    url = damaged_copy(databases, new_database, "skipmq.message", page)
    with psycopg.connect(url, autocommit=True) as connection:
        found = Damaged(connection, queue, lost).receive_all()
    databases.drop(url)

    # Of the others PostgreSQL cannot write some: an index page that is full leads to the damage.
    assert set(range(40)) - lost <= set(found)
    assert lost & set(range(40))


def test_message_whose_body_is_damaged_is_passed_over(
    databases: Databases, new_database: str
) -> None:
    with psycopg.connect(new_database, autocommit=True) as owner:
        owner.execute("alter table skipmq.message alter column body set storage external")
        queue = Queue(owner)
        for n in range(4):
            queue.send(f"{n} {'y' * 100_000}")
        toast = number(
            owner,
            "select reltoastrelid::regclass::text from pg_class"
            " where oid = 'skipmq.message'::regclass",
        )
    url = damaged_copy(databases, new_database, toast, 0)
    with psycopg.connect(url, autocommit=True) as connection:
        found = Damaged(connection, queue, {0}).receive_all()
    databases.drop(url)

    assert found == [1, 2, 3]


def test_intact_queue_is_received_as_by_receive_messages(orders: Queue) -> None:
    orders.send("0", "1", "2")
    damaged = Damaged(orders.connection, orders, set())

    assert sorted(damaged.receive(2)) == [0, 1]
    assert damaged.receive_all() == [2]


def test_retired_generation_is_refused(orders: Queue) -> None:
    with pytest.raises(psycopg.Error) as caught:
        orders.connection.execute(RECEIVE, (orders.id + 1, 1, 30, None, None))

    assert caught.value.sqlstate == "SQ005"


def test_message_that_was_received_too_often_is_dead_lettered(orders: Queue) -> None:
    dead = Queue(orders.connection, "dead")
    source = Queue(orders.connection, "source", RedrivePolicy=redrive_policy())
    source.send("0")
    source.receive(timeout=0)

    assert Damaged(orders.connection, source, set()).receive_all() == []
    assert dead.bodies() == ["0"]
