from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import Queue, advance, number

OLDEST = "select skipmq.oldest_message(%s, false)"
OLDEST_OF_FIFO = "select skipmq.oldest_message(%s, true)"


def test_empty_queue_has_none(orders: Queue) -> None:
    assert number(orders.connection, OLDEST, orders.id) is None


def test_visible_message_is_as_old_as_its_send(orders: Queue) -> None:
    orders.send("a")
    advance(orders.connection, "90 seconds")
    orders.send("b")

    assert 90 <= number(orders.connection, OLDEST, orders.id) < 150


def test_delayed_and_received_messages_are_not_visible(orders: Queue) -> None:
    orders.send("a")
    orders.receive()
    orders.send("b", delay=600)

    assert number(orders.connection, OLDEST, orders.id) is None


def test_fifo_message_is_as_old_as_its_arrival(owner: Connection, fifo: FifoQueue) -> None:
    fifo.put("a:1", "b:1")
    advance(owner, "90 seconds")
    fifo.put("a:2")

    assert 90 <= number(owner, OLDEST_OF_FIFO, fifo.id) < 150
