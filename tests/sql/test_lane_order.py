from collections import Counter

import pytest

from support.sql import Queue, number


def order(queue: Queue, mode: str, tenants: str = "true") -> list[int]:
    lanes: list[int] = number(queue.connection, "select skipmq.lane_order(%s, %s)", mode, tenants)
    return lanes


@pytest.mark.parametrize(("tenants", "of_one"), [("false", [20, 10]), ("true", [20, 10, 30])])
def test_priorities_come_in_order_and_received_messages_first_of_each(
    orders: Queue, tenants: str, of_one: list[int]
) -> None:
    orders.connection.execute("select setseed(0.1)")

    expected = [kind + priority for priority in range(9, -1, -1) for kind in of_one]
    assert order(orders, "strict", tenants) == expected


def test_noisy_tenants_come_first_of_their_priority_at_times(orders: Queue) -> None:
    first = Counter(order(orders, "strict")[0] for _ in range(200))

    assert first.keys() == {29, 39}
    assert first[29] > first[39]


def test_weights_are_those_of_priorities_whatever_lanes_they_have(orders: Queue) -> None:
    drawn = Counter(order(orders, "weighted")[0] % 10 for _ in range(600))

    assert len(drawn) >= 9
    assert drawn[9] > drawn[0]
