from typing import Any

import psycopg
import pytest

from support.sql import Queue, message_ids

LOCK = (
    "select free, held, cardinality(tids)"
    " from skipmq.lock_picked(%s, %s::bigint[], %s::uuid[], skipmq.clock())"
)


def ids(queue: Queue) -> list[int]:
    rows = queue.connection.execute(
        "select id from skipmq.message where queue_id = %s order by id", (queue.id,)
    )
    return [id_ for (id_,) in rows]


def picked(queue: Queue, *numbers: int) -> Any:
    known = message_ids(queue.connection, numbers)
    return queue.connection.execute(LOCK, (queue.id, list(numbers), known)).fetchone()


def test_messages_are_free_in_flight_or_missing(orders: Queue) -> None:
    orders.send("received")
    orders.receive(timeout=30)
    orders.send("visible")
    orders.send("delayed", delay=60)
    other = Queue(orders.connection, "other")
    other.send("theirs")
    received, visible, delayed = ids(orders)
    (elsewhere,) = ids(other)

    found = picked(orders, delayed, received, visible, visible, elsewhere, 999_999_999)

    assert found == ([visible, delayed], [received], 2)
    assert picked(orders, elsewhere) == (None, None, None)


def test_messages_stay_locked(orders: Queue) -> None:
    orders.send("a")
    (one,) = ids(orders)
    with orders.connection.transaction():
        assert picked(orders, one) == ([one], None, 1)
        with (
            psycopg.connect(orders.connection.info.dsn, autocommit=True) as another,
            pytest.raises(psycopg.errors.LockNotAvailable),
        ):
            another.execute("select from skipmq.message for update nowait")
