"""The reports, on frames whose answers can be computed by hand."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("duckdb")
pytest.importorskip("sqlglot")

from skipmq.analytics.reports import definition
from skipmq.analytics.reports.period import Period
from skipmq.database import files
from support.reports import Rows, by_duckdb, by_spark
from support.settled import NOON, at_noon, row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUR = 3600
Compute: TypeAlias = Callable[..., Rows]


@pytest.fixture(params=["duckdb", pytest.param("spark", marks=pytest.mark.slow)])
def compute(request: pytest.FixtureRequest) -> Compute:
    """Give what computes a report on rows: each engine, which test_engines.py compares."""
    if request.param == "duckdb":
        return by_duckdb
    return partial(by_spark, request.getfixturevalue("spark"))


def pick(rows: Rows, *names: str) -> list[tuple[Any, ...]]:
    """Return these columns of rows of a report, in its order."""
    return [tuple(found[name] for name in names) for found in rows]


def test_latency_gives_percentiles_of_each_queue_and_hour(compute: Compute) -> None:
    history = [
        *(row(n, received=n, settled=n + 2 * n) for n in range(1, 101)),
        row(101, settled=2 * HOUR, received=None, outcome="expired"),
        row(102, queue="mails", received=0.5, settled=0.75),
    ]

    found = compute("latency", history)

    assert pick(found, "queue", "settled", "deleted", "send_to_receive_p50") == [
        ("mails", 1, 1, 0.5),
        ("orders", 100, 100, 50.0),
        ("orders", 1, 0, None),
    ]
    assert pick(found, "send_to_receive_p99", "receive_to_delete_p95", "send_to_delete_p99")[1] == (
        99.0,
        190.0,
        297.0,
    )
    assert found[2]["since"].hour == 14


def test_traffic_counts_what_arrives_and_what_is_settled_in_each_hour(
    compute: Compute,
) -> None:
    history = [
        row(1, body="12345", attribute_bytes=5),
        row(2, settled=HOUR + 1, body="1234567"),
        row(3, settled=HOUR + 2, outcome="dead-lettered", receive_count=3),
        row(3, queue="dead", settled=HOUR * 2),
        row(4, received=None, settled=None),
    ]

    found = compute("traffic", history)

    assert pick(found, "queue", "since", "arrived", "deleted", "dead_lettered") == [
        ("dead", at_noon(HOUR).replace(tzinfo=None), 1, 0, 0),
        ("dead", at_noon(2 * HOUR).replace(tzinfo=None), 0, 1, 0),
        ("orders", NOON.replace(tzinfo=None), 4, 1, 0),
        ("orders", at_noon(HOUR).replace(tzinfo=None), 0, 1, 1),
    ]
    assert pick(found, "arrived_bytes", "body_max", "settled_bytes")[2] == (37, 10, 10)


def test_comparison_counts_each_message_in_the_time_that_it_arrived_or_was_settled_in(
    compute: Compute,
) -> None:
    history = [
        row(1, sent=10, settled=20),
        row(2, sent=-100, settled=50),
        row(3, sent=-200, settled=-100, receive_count=2),
        row(4, sent=30, received=None, settled=None),
        row(5, sent=-HOUR - 1, settled=-HOUR + 1000),
        row(6, sent=-300, settled=100, outcome="dead-lettered"),
        row(6, sent=-300, settled=None, queue="dead"),
        row(7, sent=100, settled=HOUR + 5),
        row(8, queue="mails", sent=-100, received=None, settled=-50, outcome="expired"),
    ]

    found = compute("comparison", history, Period(NOON, at_noon(HOUR)))

    measures = ("deleted", "dead_lettered", "send_to_delete_p95", "redelivery_rate")
    assert pick(found, "queue", "arrived", *measures) == [
        ("dead", 1, 0, 0, None, None),
        ("mails", 0, 0, 0, None, None),
        ("orders", 3, 2, 1, 150.0, 0.0),
    ]
    assert pick(found, "arrived_before", *(f"{name}_before" for name in measures)) == [
        (0, 0, 0, None, None),
        (1, 0, 0, None, None),
        (3, 2, 0, 1001.0, 0.5),
    ]


def test_redelivery_counts_messages_by_how_often_they_were_received(compute: Compute) -> None:
    counts = (1, 1, 1, 1, 2, 3, 12, 40)
    history = [
        *(row(n, receive_count=count) for n, count in enumerate(counts)),
        row(20, received=None, outcome="expired"),
        row(21, received=None, settled=None),
    ]

    found = compute("redelivery", history)
    histogram = compute("receive_counts", history)

    assert pick(found, "received", "redelivered", "redelivery_rate") == [(8, 4, 0.5)]
    assert pick(found, "receives_mean", "receives_max") == [(61 / 8, 40)]
    assert pick(histogram, "receives", "messages") == [
        (0, 1), (1, 4), (2, 1), (3, 1), (10, 2),
    ]  # fmt: skip


def test_visibility_advice_weighs_work_against_the_timeout(compute: Compute) -> None:
    # Seconds of work, seconds until redelivered messages were deleted, timeout; advice.
    cases = [
        (41.0, 35, 30, ("raise", 60)),
        (20.0, 35, 30, ("raise", 45)),
        (2.0, 35, 30, ("investigate", 30)),
        (2.0, 5, 30, ("keep", 30)),
        (0.5, None, 900, ("lower", 30)),
        (41.0, 35, None, (None, None)),
    ]
    rows = [
        row(n, received=0, settled=seconds, queue=f"q{case}")
        for case, (work, again, _, _) in enumerate(cases)
        for n, seconds in enumerate([work] * 200)
    ] + [
        row(n, received=0, settled=again, queue=f"q{case}", receive_count=2)
        for case, (_, again, _, _) in enumerate(cases)
        for n in range(4 if again else 0)
    ]
    timeouts = [timeout for _, _, timeout, _ in cases]

    found = compute("visibility", rows, timeouts=timeouts)

    assert pick(found, "advice", "suggested_timeout") == [advice for _, _, _, advice in cases]
    assert pick(found, "processing_p99") == [(work,) for work, _, _, _ in cases]


def test_visibility_advice_wants_a_hundred_messages(compute: Compute) -> None:
    rows = [row(n, received=0, settled=41, queue="q0", receive_count=2) for n in range(99)]

    found = compute("visibility", rows, timeouts=[30])

    assert pick(found, "timed_out", "given_back", "advice") == [(99, 0, None)]


def test_dead_letters_do_not_count_as_timed_out(compute: Compute) -> None:
    rows = [row(n, received=0, settled=2, queue="q0") for n in range(200)] + [
        row(n, received=0, settled=100, queue="q0", receive_count=3, outcome="dead-lettered")
        for n in range(200, 456)
    ]

    found = compute("visibility", rows, timeouts=[30])

    columns = ("timed_out", "given_back", "timed_out_rate", "advice")
    assert pick(found, *columns) == [(0, 0, 0.0, "keep")]


def test_percentiles_are_exact_where_the_last_hundredth_decides(compute: Compute) -> None:
    # An approximation with a rank error of 1/1000 gives 0.479.
    rows = [
        row(n, received=0, settled=0.479 if n < 4_945 else 3.2, queue="q0") for n in range(5_000)
    ]

    found = compute("visibility", rows, timeouts=[2])

    assert pick(found, "processing_p50", "processing_p99") == [(0.479, 3.2)]


def test_dead_letter_causes_name_the_shape_and_attribute_that_fail(compute: Compute) -> None:
    good = '{"id": %d, "price": 1.5, "tags": ["a"], "ok": true}'
    red = '{"colour": {"DataType": "String", "StringValue": "red"}}'
    history = [
        *(row(n, body=good % n, sender="shop") for n in range(90)),
        *(
            row(n, body='{"id": "x", "price": null}', outcome="dead-lettered", attributes=red)
            for n in range(90, 98)
        ),
        *(row(n, body="<order/>", outcome="dead-lettered", sender="shop") for n in (98, 99)),
        row(100, body="<alone>", sender="alone", outcome="dead-lettered"),
        row(101, body=None, outcome="dead-lettered"),
        row(102, queue="mails", body="fine"),
    ]

    rows = compute("dead_letters", history)
    found = pick(rows, "kind", "cause", "dead_lettered", "settled", "rate")

    assert sorted(found[:2]) == [
        ("attribute", "colour = red", 8, 8, 1.0),
        ("body shape", "object<id: string, price: null>", 8, 8, 1.0),
    ]
    assert found[2] == ("body shape", "not JSON", 3, 3, 1.0)
    assert found[3] == ("sender", "shop", 2, 92, 2 / 92)
    # Of the sender of a single one nothing is said.
    assert len(found) == 4
    assert pick(rows, "lift", "queue")[0] == (102 / 12, "orders")


def test_bodies_of_one_shape_are_one_cause_whatever_their_numbers(compute: Compute) -> None:
    bodies = ['{"a": 1, "b": [1]}', '{"b": [2.5], "a": 1.25}', '{"a": 1e30, "b": [123456789012]}']
    history = [*(row(n, body=b, outcome="dead-lettered") for n, b in enumerate(bodies))]

    found = compute("dead_letters", history)

    assert pick(found, "cause", "dead_lettered") == [("object<a: number, b: array<number>>", 3)]


def test_groups_that_hold_more_than_a_tenth_in_flight_are_noisy(compute: Compute) -> None:
    history = [
        *(row(n, group_id="loud", received=1, settled=11) for n in range(40)),
        *(row(100 + n, group_id=f"quiet {n}", received=1, settled=3) for n in range(10)),
        row(200),
    ]

    found = compute("groups", history)

    assert pick(found, "group_id", "messages", "in_flight_seconds", "groups", "noisy")[:2] == [
        ("loud", 40, 400.0, 11, True),
        ("quiet 0", 1, 2.0, 11, False),
    ]
    assert pick(found, "share", "in_flight_share")[0] == (0.8, 400 / 420)


def test_backlog_gives_numbers_and_ages_at_the_end_of_each_step(compute: Compute) -> None:
    # Steps of a second.
    period = Period(NOON, at_noon(4))
    history = [
        row(1, sent=-100, received=-60, settled=-50),
        row(2, sent=-10, received=1.5, settled=1.75),
        row(3, sent=0.25, received=2.5, settled=3.5),
        row(4, sent=1.25, received=None, settled=100, outcome="expired"),
        row(5, sent=50, received=55, settled=60),
        row(6, sent=3.5, received=None, settled=None),
        row(7, sent=-100, received=-99, settled=None),
        row(8, sent=-100, received=2.25, settled=5),
    ]

    found = compute("backlog", history, period)

    assert period.step == timedelta(seconds=1)
    assert pick(found, "came", "went", "waiting", "unsettled", "oldest_age_seconds") == [
        (1, 0, 3, 4, 101.0),
        (1, 1, 3, 4, 102.0),
        (0, 2, 1, 4, 1.75),
        (1, 0, 2, 4, 2.75),
    ]
    assert pick(found, "late", "longest_wait_seconds", "late_since") == [
        (0, 0.0, at_noon(-100).replace(tzinfo=None)),
        (0, 11.5, at_noon(-100).replace(tzinfo=None)),
        (1, 102.25, at_noon(-100).replace(tzinfo=None)),
        (0, 0.0, None),
    ]
    assert pick(found, "at", "seconds")[3] == (at_noon(4).replace(tzinfo=None), 1.0)


def test_a_letter_is_in_one_queue_at_a_time_and_waits_in_none(compute: Compute) -> None:
    letter = {"sent": 0, "received": 0.25}
    history = [
        row(1, settled=1.5, outcome="dead-lettered", receive_count=3, **letter),
        row(1, queue="dead", settled=3.5, **letter),
    ]

    found = compute("backlog", history, Period(NOON, at_noon(4)))

    assert pick(found, "queue", "unsettled", "waiting", "longest_wait_seconds") == [
        ("dead", 0, 0, 0.0),
        ("dead", 1, 0, 0.0),
        ("dead", 1, 0, 0.0),
        ("dead", 0, 0, 0.0),
        ("orders", 1, 0, 0.25),
        ("orders", 0, 0, 0.0),
        ("orders", 0, 0, 0.0),
        ("orders", 0, 0, 0.0),
    ]


def test_forecast_goes_on_as_in_the_last_ten_minutes(compute: Compute) -> None:
    # In the last ten minutes of forty: 1 comes, 3 go.
    history = [
        *(row(n, sent=5, received=2099, settled=60_000) for n in range(3)),
        row(10, sent=1950, received=None, settled=None),
        *(row(20 + n, sent=5, received=59_999, settled=60_000) for n in range(5)),
        row(30, queue="mails", sent=2100, received=None, settled=None),
        row(31, queue="dead", sent=5, received=6, settled=7),
    ]

    found = compute("forecast", history, Period(NOON, at_noon(2400)))

    assert pick(found, "queue", "waiting", "in_per_second", "out_per_second") == [
        ("dead", 0, 0.0, 0.0),
        ("mails", 1, 1 / 600, 0.0),
        ("orders", 6, 1 / 600, 3 / 600),
    ]
    assert pick(found, "recent_seconds", "drains_in_seconds", "drained_at") == [
        (600.0, 0.0, at_noon(2400).replace(tzinfo=None)),
        (600.0, None, None),
        (600.0, pytest.approx(1800), at_noon(4200).replace(tzinfo=None)),
    ]


@pytest.mark.parametrize(
    ("seconds", "bar", "steps"), [(600, 10, 6), (3_600, 60, 1), (86_400, 1_800, 1)]
)
def test_steps_follow_the_period(compute: Compute, seconds: int, bar: int, steps: int) -> None:
    period = Period(NOON, at_noon(seconds))
    history = [*(row(n, sent=1, settled=10 * n + 5) for n in range(6))]

    found = compute("latency", history, period)

    assert period.bar.total_seconds() == bar
    assert [each["since"] for each in found] == [
        (NOON + n * period.bar).replace(tzinfo=None) for n in range(steps)
    ]


@pytest.mark.parametrize(
    ("length", "seconds", "steps"),
    [(10, 1, 10), (86_400, 600, 144), (0.5, 1, 1), (8e7, 86_400, 926)],
)
def test_a_period_has_steps_that_can_be_read(length: float, seconds: int, steps: int) -> None:
    period = Period(NOON, at_noon(length))

    assert (period.step, period.steps) == (timedelta(seconds=seconds), steps)


def test_consumers_give_what_each_node_deletes(compute: Compute) -> None:
    history = [
        *(row(n, received=n, settled=n + 0.5, node="a") for n in range(11)),
        row(20, received=5, settled=6, node="b"),
        row(21, node=None),
        row(22, outcome="expired"),
    ]

    found = compute("consumers", history)

    assert pick(found, "node", "deleted", "per_second", "processing_p50") == [
        ("a", 11, 1.1, 0.5),
        ("b", 1, 1.0, 1.0),
        ("unknown", 1, 1.0, 1.0),
    ]


# Those whose functions read different tables and parameters, and those that are like one of them.
VARIED = ("comparison", "traffic", "visibility", "dead_letters", "forecast")
ALIKE = ("summary", "latency", "redelivery", "receive_counts", "groups", "backlog", "consumers")


def test_every_report_has_nothing_to_say_of_nothing(compute: Compute) -> None:
    for name in VARIED + ALIKE:
        assert compute(name, []) == []


@pytest.mark.parametrize("names", [VARIED, pytest.param(ALIKE, marks=pytest.mark.slow)])
def test_functions_give_what_the_reports_do(spark: "SparkSession", names: tuple[str, ...]) -> None:
    history = [
        *(row(n, sent=n, received=n + 1, settled=n + 9, group_id="a") for n in range(12)),
        row(20, settled=5, outcome="dead-lettered", receive_count=3, body='{"a": 1}'),
        row(20, settled=9, queue="q0"),
        row(21, settled=6, outcome="dead-lettered", receive_count=2, body='{"a": 2}'),
        row(22, received=None, settled=7, outcome="expired"),
        row(23, queue="q0", received=2, settled=28),
    ]
    period = Period(NOON, at_noon(30))

    for name in names:
        found = by_spark(spark, name, history, period, [30])

        assert found == by_duckdb(name, history, period, [30]), name
        assert found, name


def test_noisy_tenants_are_those_that_the_database_marks() -> None:
    rule = (files.folder("sql") / "functions" / "janitor" / "mark_noisy.sql").read_text()
    noisy = "in_flight_share > 0.1 and messages >= 30 and groups >= 10 as noisy"

    assert "c.own >= 30 and c.own > c.total * 0.1" in rule
    assert noisy in definition("groups")
