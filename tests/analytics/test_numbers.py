"""Formatting of numbers and times."""

from datetime import UTC, datetime

import pytest

pytest.importorskip("pyspark")

from skipmq.analytics.reports.page import numbers


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
    ("text", "shown"),
    [
        ("", ""), ("web", "web"), ("two\n  lines", "two lines"), ("x" * 130, "x" * 119 + "\u2026"),
        (
            'error = Traceback (most recent call last):\n  File "a.py", line 1\nValueError: x\n',
            "error = ValueError: x",
        ),
    ],
)  # fmt: skip
def test_text_of_a_cell_is_a_line(text: str, shown: str) -> None:
    assert numbers.line(text) == shown
