from typing import Any

import psycopg
import pytest

from support.fifo import FifoQueue
from support.postgres import as_node
from support.sql import Queue, history, message_ids, number

ERASE = "select skipmq.erase_messages(%s, %s::bigint[], %s::uuid[])"


def erase(queue: Queue, ids: list[int]) -> Any:
    known = message_ids(queue.connection, ids)
    return number(queue.connection, ERASE, queue.id, ids, known)


def test_erased_messages_leave_no_history_and_a_right_count(orders: Queue) -> None:
    orders.send("a", "b", "c")
    taken = [row["id"] for row in orders.receive(2)]

    erased = erase(orders, [*taken, 0])

    assert erased == 2
    assert history(orders.connection) == []
    assert orders.counts() == (1, 0, 0)


def test_ids_of_erased_messages_are_noted_once(orders: Queue) -> None:
    orders.send("a", "b")
    taken = [row["id"] for row in orders.receive(1)]
    messages = orders.connection.execute(
        "select message_id, queue_id from skipmq.message where id = any (%s)", (taken,)
    ).fetchall()

    for _ in range(2):
        erase(orders, taken)

    noted = orders.connection.execute("select message_id, queue_id from skipmq.erased_message")
    assert noted.fetchall() == messages


def test_history_of_others_stays(orders: Queue) -> None:
    orders.send("a", "b")
    orders.delete(*orders.receive(1))
    (left,) = orders.receive()

    erase(orders, [left["id"]])

    assert history(orders.connection) == [("deleted",)]


def test_group_whose_head_is_erased_goes_on_with_the_next(fifo: FifoQueue) -> None:
    fifo.put("a:1", "a:2")
    head = fifo.receive(1)
    blocked = fifo.receive()

    erased = erase(fifo, [row["id"] for row in head])

    assert blocked == []
    assert erased == 1
    assert fifo.take() == ["a:2"]


def test_a_node_may_not_erase(orders: Queue, database: str) -> None:
    with (
        psycopg.connect(as_node(database), autocommit=True) as node,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        node.execute(ERASE, (orders.id, [1], []))
