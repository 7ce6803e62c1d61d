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


def test_partition_of_a_day_takes_over_what_the_default_one_caught(orders: Queue) -> None:
    orders.send("a", "b")
    advance(orders.connection, "3 days")
    received = orders.receive()
    advance(orders.connection, "20 days")
    orders.delete(received[0])

    made = number(orders.connection, "select skipmq.create_history_partitions()")
    orders.delete(received[1])

    partitions = {row[0] for row in history(orders.connection, "tableoid::regclass::text")}
    assert made == 8
    assert len(partitions) == 1
    assert partitions != {"skipmq.history_default"}
