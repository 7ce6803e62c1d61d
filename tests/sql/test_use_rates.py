from support.postgres import Connection
from support.sql import Queue, number

USE = "select skipmq.use_rates(q, %s, %s) from skipmq.queue q where q.queue_id = %s"
USED = (
    "select array_agg(concat(key, '=', extract(epoch from used_until)::int) order by key)"
    " from skipmq.receive_rate"
)
DAY = "2026-01-01 00:00:00+00"


def test_each_message_uses_the_rates_of_its_queue_and_its_group(orders: Queue) -> None:
    orders.set(MaximumReceiveRate=2, MaximumReceiveRatePerGroup="0.5")
    start = number(orders.connection, "select extract(epoch from %s::timestamptz)::int", DAY)

    for _ in range(2):
        orders.connection.execute(USE, (DAY, ["a", "a", None, "b"], orders.id))

    assert number(orders.connection, USED) == [
        f"={start + 4}",
        f"a={start + 8}",
        f"b={start + 4}",
    ]


def test_queue_without_rates_keeps_nothing(orders: Queue) -> None:
    orders.connection.execute(USE, (DAY, ["a"], orders.id))

    assert number(orders.connection, "select count(*) from skipmq.receive_rate") == 0


def test_janitor_leaves_rates_that_a_receive_is_using(orders: Queue, node: Connection) -> None:
    orders.set(MaximumReceiveRate=2)
    orders.connection.execute(USE, (DAY, ["a"], orders.id))

    with orders.connection.transaction():
        orders.connection.execute(USE, (DAY, ["a"], orders.id))
        node.execute("set lock_timeout = '10s'")
        number(node, "select skipmq.mark_noisy()")
    assert number(orders.connection, "select count(*) from skipmq.receive_rate") == 1

    number(node, "select skipmq.mark_noisy()")
    assert number(orders.connection, "select count(*) from skipmq.receive_rate") == 0
