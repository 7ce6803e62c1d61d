from collections.abc import Sequence
from typing import Any

import psycopg
import pytest

from support.fifo import FifoQueue
from support.sql import Queue, advance, history, message_ids, number

DELETE = (
    "select array(select outcome from skipmq.delete_picked_messages(%s, %s::bigint[], %s::uuid[])"
    " order by place)"
)


def ids(queue: Queue) -> list[int]:
    """Return the ids of the messages of a queue, in the order in which they came."""
    rows = queue.connection.execute(
        "select id from skipmq.message where queue_id = %s order by id", (queue.id,)
    )
    return [id_ for (id_,) in rows]


def delete(queue: Queue, ids: Sequence[int]) -> Any:
    known = message_ids(queue.connection, ids)
    return number(queue.connection, DELETE, queue.id, list(ids), known)


def test_delete_says_what_became_of_each(orders: Queue) -> None:
    orders.send("received")
    orders.receive(timeout=30)
    orders.send("visible")
    orders.send("delayed", delay=60)
    received, visible, delayed = ids(orders)

    outcomes = delete(orders, [delayed, received, visible, visible, 999_999_999])

    assert outcomes == ["deleted", "in-flight", "deleted", "deleted", "missing"]
    assert orders.counts() == (0, 1, 0)
    assert history(orders.connection, "outcome, receive_count") == [("deleted", 0)] * 2


def test_message_of_another_queue_stays(orders: Queue) -> None:
    other = Queue(orders.connection, "other")
    other.send("a")

    assert delete(orders, ids(other)) == ["missing"]
    assert other.counts() == (1, 0, 0)


def test_group_goes_on_with_what_is_left(fifo: FifoQueue) -> None:
    fifo.put("a:1", "a:2", "b:1", "c:1")
    assert fifo.take(1) == ["a:1"]
    first, second, other, alone = ids(fifo)

    outcomes = delete(fifo, [first, second, other, alone])

    assert outcomes == ["in-flight", "deleted", "deleted", "deleted"]
    assert fifo.take() == []
    advance(fifo.connection, "31 s")
    assert fifo.take() == ["a:1"]
    fifo.put("b:2")
    assert fifo.take() == ["b:2"]


def test_first_of_a_group_makes_room_for_the_next(fifo: FifoQueue) -> None:
    fifo.put("a:1", "a:2")

    assert delete(fifo, ids(fifo)[:1]) == ["deleted"]

    assert fifo.take() == ["a:2"]


def test_purged_generation_is_refused(orders: Queue) -> None:
    orders.send("a")
    (one,) = ids(orders)
    orders.connection.execute("select skipmq.purge_queue(%s)", (orders.id,))

    with pytest.raises(psycopg.Error) as raised:
        delete(orders, [one])
    assert raised.value.sqlstate == "SQ005"
