from collections import Counter

import psycopg
import pytest

from support.postgres import as_node
from support.sql import Queue, advance, redrive_policy, send_prioritised


def test_queue_gives_no_more_than_its_maximum_in_flight(orders: Queue) -> None:
    orders.send(*"abcde")
    orders.set(MaximumInFlight=3)

    first = orders.receive(limit=2)
    second = orders.receive()
    full = orders.poll()
    orders.delete(first[0])
    after_a_delete = orders.receive()
    orders.hide(0, second[0])
    after_a_return = orders.receive()

    assert [len(each) for each in (first, second, after_a_delete, after_a_return)] == [2, 1, 1, 1]
    assert [row["id"] for row in full] == [None]
    assert 25 < full[0]["next_visible_in"].total_seconds() <= 30
    assert orders.counts() == (1, 3, 0)


def test_place_of_a_dead_consumer_is_free_when_its_visibility_ends(orders: Queue) -> None:
    orders.send("a", "b")
    orders.set(MaximumInFlight=1)
    (dead,) = orders.receive(timeout=10)

    assert orders.bodies() == []
    advance(orders.connection, "10 seconds")

    assert orders.hide(10, dead) == ["not-in-flight"]
    (taken,) = orders.receive(timeout=100)
    assert orders.hide(10, taken) == ["changed"]


def test_limit_is_removed_by_an_empty_text_and_changed_at_any_time(orders: Queue) -> None:
    orders.send(*"abcde")
    orders.set(MaximumInFlight=1)
    taken = [len(orders.receive())]
    for value in (3, ""):
        orders.set(MaximumInFlight=value)
        taken.append(len(orders.receive()))

    assert taken == [1, 2, 2]


@pytest.mark.parametrize("value", ["0", "-1", "120001", "x"])
def test_limit_that_cannot_be_is_refused(orders: Queue, value: str) -> None:
    with pytest.raises(psycopg.Error):
        orders.set(MaximumInFlight=value)


def test_limit_and_rate_of_a_group_hold_together(orders: Queue) -> None:
    orders.send(*"abcdefgh", group="g")
    orders.set(MaximumInFlightPerGroup=1, MaximumReceiveRatePerGroup=10)
    orders.delete(*orders.receive())
    assert len(orders.receive()) == 1

    orders.set(MaximumInFlightPerGroup=5, MaximumReceiveRatePerGroup=1)
    advance(orders.connection, "2 seconds")
    assert len(orders.receive()) == 1


@pytest.mark.parametrize("rate", ["MaximumReceiveRate", "MaximumReceiveRatePerGroup"])
def test_next_poll_of_an_empty_queue_is_not_due(orders: Queue, rate: str) -> None:
    orders.send("a", group="g")
    orders.set(**{rate: 0.1, "ReceiveBurst": 10})
    orders.delete(*orders.receive())

    assert orders.poll()[0]["next_visible_in"] is None


def test_expired_messages_and_those_received_too_often_are_cleared(orders: Queue) -> None:
    dead = Queue(orders.connection, "dead")
    orders.set(RedrivePolicy=redrive_policy("dead", 1))
    orders.set(MaximumInFlight=3)
    orders.send("often")
    orders.receive(timeout=0)
    orders.send("good")

    assert orders.bodies() == ["good"]
    assert dead.bodies() == ["often"]

    orders.send("old")
    advance(orders.connection, "5 days")
    orders.send("new")
    assert orders.bodies() == ["new"]


def test_strict_priority_comes_first_and_stays_when_received_again(orders: Queue) -> None:
    orders.set(PriorityMode="strict")
    send_prioritised(orders, 0, 5, None, 9)

    again = orders.receive(limit=1, timeout=0)
    one_by_one = [body for _ in range(5) for body in orders.bodies(limit=1)]

    assert [row["body"] for row in again] == ["9"]
    assert one_by_one == ["9", "5", "0", "none"]


def test_weighted_priority_starves_none(orders: Queue) -> None:
    orders.set(PriorityMode="weighted")
    send_prioritised(orders, *[9] * 60, *[0] * 60)

    got = Counter(body for _ in range(60) for body in orders.bodies(limit=1))

    assert got["9"] > got["0"] > 0


def test_node_may_claim(orders: Queue, database: str) -> None:
    orders.set(MaximumInFlight=2)
    orders.send("a")
    with psycopg.connect(as_node(database)) as node:
        assert orders.on(node).bodies() == ["a"]
