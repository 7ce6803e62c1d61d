from support.postgres import Connection
from support.sql import Queue, advance, history, number

PARTITIONS = "select count(*) from pg_inherits where inhparent = 'skipmq.history'::regclass"


def test_create_partitions_twice_makes_them_once(owner: Connection) -> None:
    made = [number(owner, "select skipmq.create_history_partitions(20)") for _ in range(2)]

    assert made == [13, 0]
    assert number(owner, PARTITIONS) == 22  # Today, 20 days ahead, the default one.


def test_settled_message_lies_in_the_partition_of_its_day(orders: Queue) -> None:
    orders.send("a")
    orders.delete(*orders.receive())

    assert number(
        orders.connection,
        "select tableoid::regclass::text = 'skipmq.history_'"
        " || to_char(settled_at at time zone 'UTC', 'YYYYMMDD') from skipmq.history",
    )


def test_settlement_without_a_partition_is_kept_in_the_default_one(orders: Queue) -> None:
    orders.send("a")
    advance(orders.connection, "3 days")
    received = orders.receive()
    advance(orders.connection, "30 days")

    orders.delete(*received)

    assert history(orders.connection, "tableoid::regclass::text") == [("skipmq.history_default",)]


def test_node_may_make_partitions(node: Connection) -> None:
    assert number(node, "select skipmq.create_history_partitions(8)") == 1
