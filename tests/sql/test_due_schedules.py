from support.schedules import advance_to, create
from support.sql import Queue, advance

DUE = "select name, wait from skipmq.due_schedules()"


def test_due_schedules_and_the_time_until_the_next(orders: Queue) -> None:
    assert orders.connection.execute(DUE).fetchall() == [(None, None)]
    create(orders.connection)
    assert orders.connection.execute(DUE).fetchall() == [("tick", None), (None, None)]

    advance_to(orders.connection, None, "1 hour")

    ((name, wait),) = orders.connection.execute(DUE).fetchall()
    assert name is None
    assert 3500 < wait <= 3600
    orders.connection.execute("select skipmq.change_schedule('tick', 'pause')")
    advance(orders.connection, "2 hours")
    assert orders.connection.execute(DUE).fetchall() == [(None, None)]
