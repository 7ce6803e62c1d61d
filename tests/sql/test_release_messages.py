from collections.abc import Sequence
from typing import Any

import psycopg
import pytest

from support.fifo import FifoQueue
from support.sql import Queue


def release(
    queue: Queue, *messages: tuple[int | None, Any], groups: Sequence[str] = ()
) -> list[tuple[str, int]]:
    ids, message_ids = [each for each, _ in messages], [each for _, each in messages]
    return [
        (outcome, count)
        for outcome, count in queue.connection.execute(
            "select outcome, messages from skipmq.release_messages"
            "(%s, %s::bigint[], %s::uuid[], %s::text[]) order by place",
            (queue.id, ids, message_ids, list(groups)),
        )
    ]


def named(*received: dict[str, Any]) -> list[tuple[int | None, Any]]:
    return [(each["id"], each["message_id"]) for each in received]


def test_message_in_flight_is_visible_now(orders: Queue) -> None:
    orders.send("a", "b", "c")
    one, two, three = orders.receive(timeout=1000)
    orders.send("later", delay=60)
    orders.delete(three)
    (delayed,) = orders.connection.execute(
        "select id, message_id from skipmq.message where queue_id = %s and body = 'later'",
        (orders.id,),
    )

    released = release(orders, *named(one, one, three), delayed)

    assert released == [("released", 1), ("released", 0), ("missing", 0), ("not-in-flight", 0)]
    assert orders.counts() == (1, 1, 1)
    (again,) = orders.receive()
    assert (again["body"], again["approximate_receive_count"]) == ("a", 2)
    assert orders.hide(0, one) == ["changed"]
    assert release(orders, (None, two["message_id"]), (None, delayed[1])) == [
        ("released", 1),
        ("missing", 0),
    ]


def test_old_receipt_of_a_standard_queue_deletes_until_the_next_receive(orders: Queue) -> None:
    orders.send("a", "b")
    one, two = orders.receive(timeout=1000)
    release(orders, *named(one, two))

    assert orders.delete(one) == 1
    assert orders.bodies() == ["b"]


def test_group_is_freed_with_all_its_messages(fifo: FifoQueue) -> None:
    fifo.put("a:1", "a:2", "b:1", "a:3")
    one, two = fifo.receive(2, timeout=1000)
    (other,) = fifo.receive(timeout=1000)

    assert release(fifo, *named(two, one), groups=["a", "c"]) == [
        ("released", 2),
        ("released", 0),
        ("released", 0),
        ("missing", 0),
    ]
    assert fifo.take(10, timeout=1000) == ["a:1", "a:2", "a:3"]
    assert fifo.outcomes(one, two, other) == ["expired", "expired", "deleted"]
    assert release(fifo, (None, one["message_id"])) == [("released", 3)]
    assert release(fifo, groups=["a"]) == [("not-in-flight", 0)]
    assert fifo.outcomes(one) == ["expired"]


def test_message_that_waits_does_not_free_its_group(fifo: FifoQueue) -> None:
    fifo.put("a:1", "a:2")
    (one,) = fifo.receive(1, timeout=1000)
    (waiting,) = fifo.connection.execute(
        "select id, message_id from skipmq.message where queue_id = %s and id <> %s",
        (fifo.id, one["id"]),
    )

    assert release(fifo, waiting) == [("not-in-flight", 0)]
    assert fifo.take(10) == []
    assert release(fifo, waiting, *named(one)) == [("not-in-flight", 0), ("released", 1)]


def test_retired_generation_is_refused(orders: Queue) -> None:
    orders.id += 1_000_000

    with pytest.raises(psycopg.Error) as caught:
        release(orders)

    assert caught.value.sqlstate == "SQ005"
