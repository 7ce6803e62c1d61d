from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import Queue, Redrive, advance, number

OLDEST = "select skipmq.oldest_message(%s, false)"
OLDEST_OF_FIFO = "select skipmq.oldest_message(%s, true)"


def test_empty_queue_has_none(orders: Queue) -> None:
    assert number(orders.connection, OLDEST, orders.id) is None


def test_visible_message_is_as_old_as_its_send(orders: Queue) -> None:
    orders.send("a")
    advance(orders.connection, "90 seconds")
    orders.send("b")

    assert 90 <= number(orders.connection, OLDEST, orders.id) < 150


def test_delayed_message_has_no_age(owner: Connection, orders: Queue) -> None:
    later = FifoQueue(owner, "later.fifo", DelaySeconds=600)
    orders.send("b", delay=600)
    later.put("a:1")

    assert number(owner, OLDEST, orders.id) is None
    assert number(owner, OLDEST_OF_FIFO, later.id) is None
    advance(owner, "700 seconds")
    assert 700 <= number(owner, OLDEST, orders.id) < 760
    assert 700 <= number(owner, OLDEST_OF_FIFO, later.id) < 760


def test_message_is_as_old_as_its_send_until_it_is_deleted(orders: Queue) -> None:
    """However often it was received, and whatever is in flight or visible."""
    orders.send("a")
    for seconds in (90, 180, 270, 360):
        advance(orders.connection, f"{seconds} seconds")
        orders.send("b")
        received = orders.receive(10, timeout=60)
        assert seconds <= number(orders.connection, OLDEST, orders.id) < seconds + 60
        advance(orders.connection, f"{seconds + 61} seconds")
        assert seconds + 61 <= number(orders.connection, OLDEST, orders.id) < seconds + 120

    assert orders.delete(*(each for each in received if each["body"] == "a")) == 1

    assert 331 <= number(orders.connection, OLDEST, orders.id) < 391


def test_dead_lettered_message_is_as_old_as_its_send(owner: Connection) -> None:
    redrive = Redrive(owner, 2)
    advance(owner, "90 seconds")

    assert 90 <= number(owner, OLDEST, redrive.dead.id) < 150
    assert number(owner, OLDEST, redrive.source.id) is None


def test_fifo_message_is_as_old_as_its_arrival_until_it_is_deleted(
    owner: Connection, fifo: FifoQueue
) -> None:
    fifo.put("a:1", "b:1")
    advance(owner, "90 seconds")
    fifo.put("a:2")
    received = fifo.receive()

    assert 90 <= number(owner, OLDEST_OF_FIFO, fifo.id) < 150
    fifo.delete(*(each for each in received if each["body"] == "1"))
    assert number(owner, OLDEST_OF_FIFO, fifo.id) < 60
