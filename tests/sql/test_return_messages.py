from typing import Any

import pytest

from support.postgres import Connection
from support.sql import Queue, advance, number, receipts, redrive_policy

RETURN = "select skipmq.return_messages(%s, %s::bigint[], %s::int[], %s::uuid[])"


def give_back(queue: Queue, *received: dict[str, Any]) -> Any:
    return number(queue.connection, RETURN, queue.id, *receipts(received))


def test_returned_message_is_visible_and_was_never_received(orders: Queue) -> None:
    orders.send("a", "b")
    received = orders.receive()

    assert give_back(orders, *received) == 2

    assert orders.counts() == (2, 0, 0)
    again = orders.receive()
    assert {m["approximate_receive_count"] for m in again} == {1}
    assert all(m["first_received_at"] == m["received_at"] for m in again)


def test_earlier_receives_go_on_counting(orders: Queue) -> None:
    orders.send("a")
    (first,) = orders.receive()
    advance(orders.connection, "31 seconds")

    give_back(orders, *orders.receive())

    (again,) = orders.receive()
    assert again["approximate_receive_count"] == 2
    assert again["first_received_at"] == first["first_received_at"]


def test_receipt_that_was_given_back_fits_no_other_receive(orders: Queue) -> None:
    orders.send("a")
    received = orders.receive()
    give_back(orders, *received)
    again = orders.receive()

    assert orders.delete(*received) == 0
    assert orders.delete(*again) == 1


def test_message_that_was_received_again_or_settled_is_passed_over(orders: Queue) -> None:
    orders.send("a", "b")
    old = orders.receive(timeout=0)
    new = orders.receive()
    orders.delete(new[0])

    assert give_back(orders, *old) == 0
    assert orders.counts() == (0, 1, 0)


def test_message_of_another_queue_is_passed_over(owner: Connection) -> None:
    orders, other = Queue(owner, "orders"), Queue(owner, "other")
    orders.send("a")

    assert give_back(other, *orders.receive()) == 0


@pytest.mark.parametrize("times", [1, 5])
def test_what_nobody_got_never_becomes_a_dead_letter(owner: Connection, times: int) -> None:
    dead = Queue(owner, "dead")
    orders = Queue(owner, "orders", RedrivePolicy=redrive_policy(most=1))
    orders.send("a")

    for _ in range(times):
        give_back(orders, *orders.receive())

    assert orders.bodies() == ["a"]
    assert dead.counts() == (0, 0, 0)
