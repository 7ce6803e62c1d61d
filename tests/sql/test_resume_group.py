from support.sql import Queue, number

PAUSE = "select skipmq.pause_group(%s, %s, skipmq.clock() + %s::interval)"
RESUME = "select skipmq.resume_group(%s, %s)"
GROUPS = "select array_agg(group_id || '/' || paused_by) from skipmq.paused_groups(%s)"


def test_group_is_left_out_until_it_is_resumed(orders: Queue) -> None:
    orders.send("a", group="a")
    orders.send("b", group="b")
    orders.send("none")
    orders.connection.execute(PAUSE, (orders.id, "a", None))

    paused, by = orders.bodies(), number(orders.connection, GROUPS, orders.id)
    resumed = [number(orders.connection, RESUME, orders.id, "a") for _ in range(2)]

    assert sorted(paused) == ["b", "none"]
    assert [each.partition("/")[0] for each in by] == ["a"]
    assert resumed == [True, False]
    assert orders.bodies() == ["a"]
