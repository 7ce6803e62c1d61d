from typing import Any

import psycopg
import pytest

from support.fifo import FifoQueue
from support.sql import Queue, number, redrive_policy

NEWEST = "select body, state from skipmq.newest_messages(%s, %s::timestamptz, %s, %s)"

ROWS = 50_000
FILL = """
  insert into skipmq.message (id, visible_at, sent_at, enqueued_at, queue_id, message_id, body)
  select nextval('skipmq.message_id_seq'), t, t, t, %s, gen_random_uuid(), 'x'
  from generate_series(1, %s) n, lateral (select now() - n * interval '1 ms' as t) x
"""


def newest(queue: Any, since: Any = None, limit: int = 50, characters: int = 10) -> list[Any]:
    found = queue.connection.execute(NEWEST, (queue.id, since, limit, characters)).fetchall()
    return [tuple(row) for row in found]


def test_newest_come_first_whatever_their_state(orders: Queue) -> None:
    orders.send("received")
    orders.receive()
    orders.send("later", delay=60)
    orders.send("deprioritised")
    orders.connection.execute("update skipmq.message set shard = 1 where body = 'deprioritised'")
    orders.send("one that is too long")

    assert newest(orders) == [
        ("one that i", "visible"),
        ("deprioriti", "visible"),
        ("later", "delayed"),
        ("received", "in-flight"),
    ]
    assert len(newest(orders, limit=2)) == 2
    assert orders.counts() == (2, 1, 1)


def test_only_what_came_since_is_shown(orders: Queue) -> None:
    orders.send("old", "other")
    since = number(orders.connection, "select skipmq.clock()")
    orders.receive(1, timeout=0)
    orders.receive(1)
    assert newest(orders, since) == []

    orders.send("new")

    assert newest(orders, since) == [("new", "visible")]


def test_dead_letter_is_new_when_it_comes(orders: Queue) -> None:
    owner = orders.connection
    dead, source = Queue(owner, "dead"), Queue(owner, "source", RedrivePolicy=redrive_policy())
    source.send("a")
    source.receive(timeout=0)
    since = number(owner, "select skipmq.clock()")
    source.receive(timeout=0)

    assert newest(dead, since) == [("a", "visible")]


def test_fifo_queue_shows_its_newest(fifo: FifoQueue) -> None:
    for body in ("g:1", "h:2", "g:3"):
        fifo.put(body)

    assert [body for body, _ in newest(fifo, limit=2)] == ["3", "2"]


def test_old_generation_is_refused(orders: Queue) -> None:
    number(orders.connection, "select skipmq.purge_queue(%s)", orders.id)

    with pytest.raises(psycopg.Error) as caught:
        newest(orders)
    assert caught.value.sqlstate == "SQ005"


def test_much_that_waits_costs_no_more(orders: Queue) -> None:
    owner = orders.connection
    for queue in (orders.id, orders.id + 1):
        owner.execute(FILL, (queue, ROWS))
    explain = f"explain (analyze, buffers, format json) {NEWEST}"

    (tree,) = number(owner, explain, orders.id, None, 50, 10)

    assert tree["Plan"]["Actual Rows"] == 50
    # Each of the 500 entries may lie in a block of its own.
    assert tree["Plan"]["Shared Hit Blocks"] + tree["Plan"]["Shared Read Blocks"] < 1_000
