import pytest

from support.applications import Applications, bodies, delete, give_back, receive, send
from support.postgres import Connection
from support.sql import ENDS, Queue, redrive_policy

each_kind = pytest.mark.parametrize("queue", ["orders", "orders.fifo"])


@pytest.fixture
def shop(owner: Connection, applications: Applications, queue: str) -> Connection:
    Queue(owner, queue)
    connection = applications.both("shop", queue)
    send(connection, queue)
    return connection


@each_kind
def test_receive_that_is_taken_back_does_not_count(shop: Connection, queue: str) -> None:
    (first,) = receive(shop, queue)

    assert give_back(shop, queue, first)

    (second,) = receive(shop, queue)
    assert second["approximate_receive_count"] == 1
    assert not delete(shop, queue, first)
    assert delete(shop, queue, second)


@each_kind
def test_receive_is_taken_back_once(shop: Connection, queue: str) -> None:
    (message,) = receive(shop, queue)

    assert give_back(shop, queue, message)
    assert not give_back(shop, queue, message)
    (again,) = receive(shop, queue)
    assert not give_back(shop, queue, message)
    assert again["approximate_receive_count"] == 1
    assert give_back(shop, queue, again)


@each_kind
def test_message_that_was_never_received_is_not_returned(shop: Connection, queue: str) -> None:
    (message,) = receive(shop, queue, timeout=0)

    assert not give_back(shop, queue, message)
    assert not give_back(shop, queue, message | {"receive_count": 0})
    assert not give_back(shop, queue, {"id": None, "receive_count": None, "message_id": None})


@each_kind
def test_message_of_a_queue_that_was_purged_is_gone(
    shop: Connection, owner: Connection, queue: str
) -> None:
    (message,) = receive(shop, queue)
    owner.execute(ENDS["purge"], (queue,))

    assert not give_back(shop, queue, message)


@each_kind
def test_returned_message_never_reaches_the_dead_letter_queue(
    owner: Connection, applications: Applications, queue: str
) -> None:
    dead = queue.replace("orders", "dead")
    Queue(owner, dead)
    Queue(owner, queue, RedrivePolicy=redrive_policy(dead, 1))
    shop = applications.both("shop", queue)
    send(shop, queue)

    for _ in range(3):
        (message,) = receive(shop, queue)
        assert give_back(shop, queue, message)

    assert [row["approximate_receive_count"] for row in receive(shop, queue)] == [1]


def test_group_gives_what_was_returned_before_what_lies_behind(
    owner: Connection, applications: Applications
) -> None:
    Queue(owner, "orders.fifo")
    shop = applications.both("shop", "orders.fifo")
    for body in ("first", "second", "third"):
        send(shop, "orders.fifo", body)
    first, second, third = receive(shop, "orders.fifo")

    for message in (third, second):
        assert give_back(shop, "orders.fifo", message)
        assert receive(shop, "orders.fifo") == []
    assert give_back(shop, "orders.fifo", first)

    assert bodies(shop, "orders.fifo") == ["first", "second", "third"]
