from support.sql import Queue, number

STATEMENT = "select skipmq.expire_visible(%s, 0::smallint, '-infinity', clock_timestamp(), {}, 100)"


def test_expire_visible_takes_only_what_was_enqueued_by_the_horizon(orders: Queue) -> None:
    orders.send("a", "b")

    none = number(
        orders.connection, STATEMENT.format("clock_timestamp() - interval '1 h'"), orders.id
    )
    both = number(orders.connection, STATEMENT.format("clock_timestamp()"), orders.id)

    assert (none, both) == (0, 2)


def test_expire_visible_leaves_delayed_messages(orders: Queue) -> None:
    orders.send("a", delay=60)

    assert number(orders.connection, STATEMENT.format("'infinity'"), orders.id) == 0
