"""Formatting of numbers and times."""

from datetime import UTC, datetime, timedelta

import pytest

pytest.importorskip("pyspark")

import itertools

from skipmq.analytics.page import numbers, scales
from skipmq.analytics.page.scales import FLOOR, TOP, WIDTH, Times


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (None, "\u2013"), (0, "0 s"), (0.00035, "0.35 ms"), (0.35, "350 ms"), (4.12, "4.1 s"),
        (41.4, "41 s"), (60, "1 min"), (90, "90 s"), (720, "12 min"), (3_600, "1 h"),
        (11_500, "3.2 h"), (86_400, "1 day"), (345_600, "4 days"), (1e9, "11,574 days"),
    ],
)  # fmt: skip
def test_duration_has_the_unit_that_fits(seconds: float | None, told: str) -> None:
    assert numbers.duration(seconds) == told


def test_numbers_have_two_figures_and_their_unit() -> None:
    assert [numbers.count(n) for n in (0, 950, 12_345, 1_230_000)] == [
        "0", "950", "12,345", "1.2 million",
    ]  # fmt: skip
    assert [numbers.percent(p) for p in (0, 0.0004, 0.021, 0.48, 1)] == [
        "0 %", "0.04 %", "2.1 %", "48 %", "100 %",
    ]  # fmt: skip
    assert [numbers.size(n) for n in (850, 12_000, 1.4e9, 3e12)] == [
        "850 B", "12 kB", "1.4 GB", "3 TB",
    ]  # fmt: skip
    assert [numbers.rate(r) for r in (12, 0.05, 0.0002)] == [
        "12 a second", "3 a minute", "0.72 an hour",
    ]  # fmt: skip
    assert numbers.moment(datetime(2026, 11, 21, 9, 5, tzinfo=UTC)) == "2026-11-21 09:05"


@pytest.mark.parametrize(
    ("scale", "texts"),
    [
        (scales.counts(0), ["0", "1"]),
        (scales.counts(7), ["0", "2", "4", "6", "8"]),
        (scales.counts(1_000_000), ["0", "500 k", "1 M"]),
        (scales.seconds(0.2), ["0 s", "50 ms", "100 ms", "150 ms", "200 ms"]),
        (scales.seconds(5_000), ["0 s", "30 min", "1 h", "90 min"]),
        (scales.durations(0.02, 500), ["100 ms", "1 s", "10 s", "1 min"]),
        (scales.durations(0.4, 4), ["1 s", "3 s"]),
    ],
)
def test_ticks_are_round_and_within_the_drawing(scale: scales.Scale, texts: list[str]) -> None:
    assert [text for _, text in scale.ticks] == texts
    assert scale.level(scale.low) == FLOOR
    assert scale.level(scale.high) == TOP
    levels = [scale.level(at) for at, _ in scale.ticks]
    assert levels == sorted(levels, reverse=True)
    assert all(above - below >= 12 for below, above in zip(levels[1:], levels, strict=False))


@pytest.mark.parametrize("hours", [1 / 360, 0.1, 1, 7, 24, 75, 24 * 14, 24 * 400])
def test_times_of_an_axis_are_round_and_not_cut_off(hours: float) -> None:
    since = datetime(2026, 11, 20, 3, 7, 11, tzinfo=UTC)
    ticks = Times(since, since + timedelta(hours=hours)).ticks()

    assert 2 <= len(ticks) <= 6
    assert all(x <= WIDTH - 15 for x, _ in ticks)
    assert all(right - left >= 40 for (left, _), (right, _) in itertools.pairwise(ticks))
