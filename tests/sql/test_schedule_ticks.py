from support.schedules import create, ticks
from support.sql import Queue, number


def test_ticks_are_those_of_the_schedule(orders: Queue) -> None:
    create(orders.connection)
    create(orders.connection, "other")
    number(orders.connection, "select skipmq.change_schedule('other', 'run')")

    assert ticks(orders.connection) == []
