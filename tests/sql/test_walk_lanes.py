from support.sql import Queue


def test_group_behind_thousands_of_a_busy_one_is_found(orders: Queue) -> None:
    orders.set(MaximumInFlightPerGroup=1)
    orders.send(*[f"busy{n}" for n in range(2500)], group="m")
    assert orders.groups() == {"m": 1}
    orders.send("last", group="z")
    orders.send("first", group="a")
    orders.send("alone")

    assert orders.groups() | orders.groups() == {"z": 1, "a": 1, None: 1}
