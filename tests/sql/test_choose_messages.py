from support.sql import Queue


def test_busy_group_hides_no_other(orders: Queue) -> None:
    orders.set(MaximumInFlightPerGroup=2)
    orders.send(*[f"busy{n}" for n in range(50)], group="busy")
    orders.send(*[f"b{n}" for n in range(3)], group="b")
    orders.send("none")

    assert orders.groups() == {"busy": 2, "b": 2, None: 1}
    assert orders.groups() == {}
