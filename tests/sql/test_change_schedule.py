import psycopg
import pytest

from support.schedules import create, ticks
from support.sql import Queue, number

CHANGE = "select skipmq.change_schedule(%s, %s)"
STATE = "select paused from skipmq.schedule"


def test_changes_of_a_schedule(orders: Queue) -> None:
    create(orders.connection)

    assert number(orders.connection, CHANGE, "tick", "pause") == 1
    assert number(orders.connection, STATE) is True
    assert number(orders.connection, CHANGE, "tick", "resume") == 1
    assert number(orders.connection, STATE) is False
    assert number(orders.connection, CHANGE, "tick", "run") == 1
    assert (orders.bodies(), ticks(orders.connection)) == (["x"], [(True, None)])
    assert number(orders.connection, CHANGE, "tick", "delete") == 1
    assert number(orders.connection, CHANGE, "tick", "delete") == 0
    assert ticks(orders.connection) == []


def test_unknown_change_is_refused(orders: Queue) -> None:
    create(orders.connection)

    with pytest.raises(psycopg.Error, match="not by stop"):
        number(orders.connection, CHANGE, "tick", "stop")
