"""The rules of limits, priorities and topics let pass what is allowed, and find what is not."""

import json
from typing import Any

import pytest

from cluster.history import Op
from cluster.story import QUEUE, op, receive, send
from concurrency.story import (
    DIVIDED,
    EXCEEDED,
    HURRIED,
    OVERLOOKED,
    SHARED,
    ended,
    kept,
    only,
    purge,
)

OTHER = "ledgers"


def having(**attributes: str) -> Op:
    return op("set", 0, queue=QUEUE, value=json.dumps(attributes), took=0)


def flight(at: float, message: str, *, hidden: float = 10, claim: bool = True, **more: Any) -> Op:
    more = {"queue": QUEUE, "place": int(at * 1000), "took": 0.001} | more
    return op("flight", at, message_id=message, visibility=hidden, receive_count=int(claim), **more)


def topic(**queues: str) -> Op:
    return op("topic", 0, queue="news", value=json.dumps(queues), took=0)


def published(at: float, value: str, **more: Any) -> Op:
    return op("publish", at, queue="news", value=value, **more)


class TestExceeded:
    def test_claim_beyond_the_limit_is_found(self) -> None:
        ops = [having(MaximumInFlight="1"), flight(1, "a"), flight(2, "b")]

        assert "2 in flight, of 1" in only(EXCEEDED, *ops)

    def test_claim_beyond_the_limit_of_a_group_is_found(self) -> None:
        ops = [flight(1, "a", group="g"), flight(2, "b", group="h"), flight(3, "c", group="g")]

        assert "orders g: 2 in flight, of 1" in only(
            EXCEEDED, having(MaximumInFlightPerGroup="1"), *ops
        )

    def test_message_that_is_hidden_when_it_was_visible_is_found(self) -> None:
        ops = [flight(1, "a", hidden=1), flight(3, "b"), flight(4, "a", claim=False)]

        only(EXCEEDED, having(MaximumInFlight="1"), *ops)

    @pytest.mark.parametrize(
        "ends", [flight(2, "a", hidden=0, claim=False), flight(2, "a", hidden=1)]
    )
    def test_place_is_free_when_a_message_is_settled_or_visible(self, ends: Op) -> None:
        kept(having(MaximumInFlight="1"), flight(1, "a"), ends, flight(4, "b"))

    def test_messages_without_a_group_and_of_another_generation_do_not_count(self) -> None:
        ops = [flight(1, "a"), flight(2, "b"), flight(3, "c", group="g", sequence_number=1)]

        kept(having(MaximumInFlightPerGroup="1"), *ops, flight(4, "d", group="g"))

    def test_message_that_is_hidden_longer_takes_no_other_place(self) -> None:
        ops = [flight(1, "a", hidden=2), flight(2, "a", hidden=9, claim=False)]

        kept(having(MaximumInFlight="1"), *ops)


class TestHurried:
    @pytest.mark.parametrize("name", ["MaximumReceiveRate", "MaximumReceiveRatePerGroup"])
    def test_delivery_before_its_time_is_found(self, name: str) -> None:
        ops = [flight(at, f"{at}", group="g", hidden=0.1) for at in (1, 1.1, 1.8)]

        assert "3 came in a time for 2." in only(
            HURRIED, having(**{name: "1", "ReceiveBurst": "2"}), *ops
        )

    def test_burst_and_rate_are_allowed(self) -> None:
        ops = [flight(at, f"{at}", hidden=0.1) for at in (1, 1.1, 2.1, 3.1)]

        kept(having(MaximumReceiveRate="1", ReceiveBurst="2"), *ops)

    def test_clock_that_is_set_back_gives_nothing(self) -> None:
        ops = [flight(at, f"{at}", place=place) for place, at in enumerate((5, 5.1, 1, 1.1))]

        only(HURRIED, having(MaximumReceiveRate="1", ReceiveBurst="2"), *ops)


class TestOverlooked:
    ORDER = having(PriorityMode="strict")

    def test_message_that_comes_while_a_higher_one_waits_is_found(self) -> None:
        ops = [send(0, "a!1"), send(1, "b!9")]
        came = [*ended(receive(2, "a!1")), *ended(receive(4, "b!9"))]

        assert "a!1 came while b!9 waited" in only(
            OVERLOOKED, self.ORDER, *ops, *came, flight(4, "id-b!9")
        )

    @pytest.mark.parametrize(
        "excuse",
        [
            purge(3, outcome="info"),
            op("receive", 1.9, outcome="fail", queue=QUEUE, took=1),
            flight(1.5, "id-b!9", hidden=0.1),
            having(PriorityMode="strict", MaximumInFlightPerGroup="1"),
            having(PriorityMode="weighted"),
        ],
    )
    def test_message_may_come_where_the_higher_one_may_have_been_held(self, excuse: Op) -> None:
        ops = [send(0, "a!1"), send(1, "b!9"), *ended(receive(2, "a!1"))]

        kept(self.ORDER, excuse, *ops, *ended(receive(4, "b!9"), 0), flight(4, "id-b!9"))


class TestDivided:
    def test_message_that_comes_from_one_queue_of_two_is_found(self) -> None:
        ops = [published(1, "a", outcome="info"), *ended(receive(2, "a"))]

        assert "a came from orders and not from ledgers" in only(
            DIVIDED, topic(**{QUEUE: "", OTHER: ""}), *ops
        )

    @pytest.mark.parametrize("excuse", [purge(3, OTHER), op("hang-up", 3)])
    def test_message_may_be_purged_or_be_of_a_kind_for_one_queue(self, excuse: Op) -> None:
        kind = "b" if excuse.op == "hang-up" else ""
        ops = [published(1, "a", outcome="info"), *ended(receive(2, "a"))]

        kept(topic(**{QUEUE: "", OTHER: kind}), *ops, excuse)

    def test_publish_of_unknown_outcome_may_reach_none(self) -> None:
        kept(topic(**{QUEUE: "", OTHER: ""}), published(1, "a", outcome="info"))


def test_message_that_comes_before_its_delay_is_found() -> None:
    backoff = having(RetryBackoff='{"base": 20, "factor": 2, "maximum": 99, "jitter": 0.5}')
    ops = [send(0, "a"), receive(1, "a", visibility=1), *ended(receive(9, "a", 2))]

    assert "before it was free" in only(SHARED, backoff, *ops)
