from support.postgres import Connection
from support.sql import Queue, number

CANCEL = "select skipmq.cancel_message('orders', %s)"


def test_delayed_message_is_cancelled_once(owner: Connection) -> None:
    orders = Queue(owner, MaximumDelaySeconds=86_400)
    message, _ = orders.send("x", "y", delay=86_400)

    assert number(orders.connection, CANCEL, message) is True

    assert number(orders.connection, CANCEL, message) is False
    assert orders.counts() == (0, 0, 1)


def test_delivered_message_is_not_cancelled(owner: Connection) -> None:
    orders = Queue(owner, MaximumDelaySeconds=86_400)
    (message,) = orders.send("x")

    assert number(orders.connection, CANCEL, message) is False
    assert orders.counts() == (1, 0, 0)
