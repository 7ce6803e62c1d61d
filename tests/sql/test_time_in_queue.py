from datetime import timedelta
from typing import Any

from support.postgres import Connection
from support.sql import Queue, advance, history, number, redrive_policy

TIMES = (
    "select step is null, settled, deleted, send_to_receive, send_to_delete, part"
    " from skipmq.time_in_queue(%s, %s, %s)"
)


def times(queue: Queue, minutes: int = 60, step: int = 1) -> list[tuple[Any, ...]]:
    found = queue.connection.execute(TIMES, (queue.id, minutes, step)).fetchall()
    return [tuple(row) for row in found]


def micros(span: timedelta) -> int:
    return span // timedelta(microseconds=1)


def test_percentiles_are_of_what_was_deleted_and_of_what_was_received(orders: Queue) -> None:
    owner, other = orders.connection, Queue(orders.connection, "other")
    orders.send(*map(str, range(20)))
    other.send("another")
    for each in orders.receive(10):
        orders.delete(each)
    other.delete(*other.receive())
    rows = history(owner, "settled_at - sent_at, first_received_at - sent_at, queue_id")
    mine = [row for row in rows if row[2] == orders.id]
    deletes, receives = (sorted(micros(row[place]) for row in mine) for place in (0, 1))

    *_, (is_all, settled, deleted, receive, delete, part) = times(orders)

    assert (is_all, settled, deleted, part) == (True, 10, 10, 1)
    assert delete == [deletes[4], deletes[9], deletes[9]]
    assert receive == [receives[4], receives[9], receives[9]]


def test_steps_are_of_minutes_within_the_period(orders: Queue) -> None:
    owner = orders.connection
    owner.execute("select skipmq.create_history_partitions(2)")
    for by in ("1 day", "1 day 10 minutes", "1 day 20 minutes"):
        advance(owner, by)
        orders.send("a")
        orders.delete(*orders.receive())

    assert [(row[0], row[2]) for row in times(orders)] == [(False, 1)] * 3 + [(True, 3)]
    assert [row[2] for row in times(orders, minutes=15)] == [1, 1, 2]
    assert [row[2] for row in times(orders, minutes=5)] == [1, 1]
    advance(owner, "1 day 3 hours")
    assert times(orders) == [(True, 0, 0, None, None, 1)]


def test_dead_letters_have_no_time_to_their_first_receive(owner: Connection) -> None:
    dead = Queue(owner, "dead")
    source = Queue(owner, "source", RedrivePolicy=redrive_policy())
    source.send("a")
    source.receive(timeout=0)
    source.receive(timeout=0)
    dead.delete(*dead.receive())

    *_, (_, settled, deleted, receive, delete, _) = times(dead)
    assert (settled, deleted, receive) == (1, 1, None)
    assert len(delete) == 3
    *_, (_, settled, deleted, receive, delete, _) = times(source)
    assert (settled, deleted, delete) == (1, 0, None)
    assert len(receive) == 3


def test_node_may_ask(orders: Queue) -> None:
    signature = "skipmq.time_in_queue(bigint, integer, integer)"
    may = "select has_function_privilege('skipmq_node', %s, 'execute')"
    assert number(orders.connection, may, signature) is True
