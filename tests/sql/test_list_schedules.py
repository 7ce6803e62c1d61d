from support.schedules import create
from support.sql import Queue

LIST = "select name from skipmq.list_schedules('000000000000', 'us-east-1', %s, %s, %s)"


def test_schedules_are_listed_by_name_in_pages(orders: Queue) -> None:
    for name in ("c", "a", "b"):
        create(orders.connection, name)

    first = orders.connection.execute(LIST, ("", 2, None)).fetchall()
    second = orders.connection.execute(LIST, ("b", 2, None)).fetchall()
    one = orders.connection.execute(LIST, ("", 1, "b")).fetchall()

    assert [first, second, one] == [[("a",), ("b",)], [("c",)], [("b",)]]
