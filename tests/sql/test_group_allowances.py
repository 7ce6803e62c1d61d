from support.sql import Queue, advance


def test_rate_of_a_group_holds_back_that_group_alone(orders: Queue) -> None:
    orders.set(MaximumReceiveRatePerGroup="0.1")
    orders.send(*map(str, range(5)), group="a")
    orders.send("b", group="b")
    orders.send("none", "none")

    assert orders.groups() == {"a": 1, "b": 1, None: 2}
    assert orders.groups() == {}
    advance(orders.connection, "10 seconds")
    assert orders.groups() == {"a": 1}
