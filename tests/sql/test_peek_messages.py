import re

import psycopg
import pytest

from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import Queue, number

PEEK = "select array(select body from skipmq.peek_messages(%s, %s, 100))"


def blocks(connection: Connection, queue: int, state: str) -> int:
    """Return how many blocks a peek reads."""
    query = "select * from skipmq.peek_messages(%s, %s, 100)"
    rows = connection.execute(
        f"explain (analyze, buffers, timing off) {query}".encode(), (queue, state)
    ).fetchall()
    found = re.search(r"Buffers: shared hit=(\d+)", "\n".join(row[0] for row in rows))
    assert found
    return int(found[1])


def test_peek_skips_expired_messages_and_shows_deprioritised_ones(orders: Queue) -> None:
    orders.send("old")
    orders.connection.execute("update skipmq.message set enqueued_at = 'epoch' where body = 'old'")
    orders.send("deprioritised")
    orders.connection.execute("update skipmq.message set shard = 1 where body = 'deprioritised'")
    orders.send("new")

    assert number(orders.connection, PEEK, orders.id, None) == ["new", "deprioritised"]
    assert number(orders.connection, PEEK, orders.id, "delayed") == []


def test_peek_of_an_old_generation_is_refused(orders: Queue) -> None:
    number(orders.connection, "select skipmq.purge_queue(%s)", orders.id)

    with pytest.raises(psycopg.Error) as caught:
        number(orders.connection, PEEK, orders.id, None)

    assert caught.value.sqlstate == "SQ005"


def test_page_ends_with_the_message_that_fills_its_bytes(orders: Queue) -> None:
    for n in range(5):
        orders.send(str(n) * 100)
    paged = "select array(select left(body, 1) from skipmq.peek_messages(%s, null, 9, null, %s))"

    found = {size: number(orders.connection, paged, orders.id, size) for size in (1, 100, 101, 999)}

    assert found == {1: ["0"], 100: ["0"], 101: ["0", "1"], 999: ["0", "1", "2", "3", "4"]}


def test_pages_of_a_state_go_on_through_the_shards(orders: Queue) -> None:
    for n in range(9):
        orders.send(f"{n}")
        orders.connection.execute(
            "update skipmq.message set shard = %s, receive_count = %s, visible_at ="
            " skipmq.clock() + %s * interval '1 minute' where body = %s",
            (n % 3, int(n % 3 == 2), (n // 3) - 1, f"{n}"),
        )
    page = "select array(select array[place, body] from skipmq.peek_messages(%s, %s, 1, %s))"

    found: dict[str | None, list[str]] = {}
    for state in (None, "visible", "in-flight", "delayed"):
        place = None
        while rows := number(orders.connection, page, orders.id, state, place):
            ((place, body),) = rows
            found.setdefault(state, []).append(body)

    assert found == {
        None: ["0", "3", "6", "1", "4", "7", "2", "5", "8"],
        "visible": ["0", "3", "1", "4", "2", "5"],
        "in-flight": ["8"],
        "delayed": ["6", "7"],
    }


def test_backlog_of_another_state_is_not_read(orders: Queue) -> None:
    connection = orders.connection
    orders.send(*[f"{n}" for n in range(3000)])
    orders.receive(2)
    connection.execute("vacuum analyze skipmq.message")
    number(connection, PEEK, orders.id, "in-flight")

    # Of 3,000 messages in more than 60 blocks.
    assert blocks(connection, orders.id, "in-flight") < 60


def test_backlog_of_another_state_is_not_read_of_a_fifo_queue(
    owner: Connection, fifo: FifoQueue
) -> None:
    for first in range(0, 3000, 1000):
        fifo.put(*[f"g{n % 3}:{n}" for n in range(first, first + 1000)])
    fifo.take(2)
    owner.execute("vacuum analyze skipmq.message")

    for state, bodies in (("in-flight", ["0", "3"]), ("delayed", [])):
        assert number(owner, PEEK, fifo.id, state) == bodies
        assert blocks(owner, fifo.id, state) < 60
