from support.sql import Queue, number

DEPRIORITISE = "select skipmq.deprioritise(%s, %s::text[], clock_timestamp(), %s::int)"
SHARDS = "select array(select shard from skipmq.message where queue_id = %s order by id)"


def test_only_the_named_tenants_at_the_head_are_deprioritised(orders: Queue) -> None:
    orders.send("1", group="a")
    orders.send("2", group="b")
    orders.send("3", group="a")
    orders.send("4")
    orders.send("5", group="a")
    orders.send("6", group="a", delay=60)

    assert number(orders.connection, DEPRIORITISE, orders.id, ["a", "c"], 4) == 2
    assert number(orders.connection, SHARDS, orders.id) == [1, 0, 1, 0, 0, 0]
    assert number(orders.connection, DEPRIORITISE, orders.id, ["a"], 10) == 1
    assert number(orders.connection, DEPRIORITISE, orders.id, ["a"], 10) == 0
