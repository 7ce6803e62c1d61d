import psycopg
import pytest

from support.sql import Queue, number

RESCHEDULE = "select skipmq.reschedule_message('orders', %s, skipmq.clock() + %s::interval)"


def test_delayed_message_is_delivered_at_another_time(orders: Queue) -> None:
    (message,) = orders.send("x", delay=800)

    assert number(orders.connection, RESCHEDULE, message, "-1 s") is True

    assert orders.bodies() == ["x"]
    assert number(orders.connection, RESCHEDULE, message, "1 hour") is False


def test_time_beyond_the_longest_delay_is_refused(orders: Queue) -> None:
    (message,) = orders.send("x", delay=800)

    with pytest.raises(psycopg.Error, match="can be delayed by at most 43200 seconds"):
        number(orders.connection, RESCHEDULE, message, "13 hours")
