"""Axes and marks, as Vega draws them."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from html import unescape
from importlib import resources
from itertools import pairwise
from typing import Any, TypeAlias

import pytest

pytest.importorskip("altair")
pytest.importorskip("pyspark")

from skipmq.analytics.reports.page import marks
from skipmq.analytics.reports.page.marks import Times
from support.browser import Browser

DAY = Times(0, 86_400_000, 1_800_000)
COLOURS = {"a": "teal", "b": "gold"}


Drawn: TypeAlias = Callable[..., str]
_DRAW = """const [specification, rows, low, high, done] = arguments;
  const flow = vega.parse(specification, null, { ast: true });
  new vega.View(flow, { expr: vega.expressionInterpreter, renderer: "none" })
    .signal("low", low).signal("high", high).data("rows", rows).toSVG().then(done, done);"""


@pytest.fixture(scope="module")
def drawn(chromium: Browser) -> Iterator[Drawn]:
    """Give what draws rows by the page's Vega, as SVG."""
    chromium.open("about:blank")
    library = resources.files("skipmq.analytics.reports.page").joinpath("vega.min.js")
    chromium.run(library.read_text(encoding="utf-8"))

    def svg(specification: Any, rows: Any, low: float = 1, high: float = 1) -> str:
        return str(chromium.driver.execute_async_script(_DRAW, specification, rows, low, high))

    yield svg
    chromium.leave()


def ticks(svg: str, axis: int) -> list[tuple[float, str]]:
    """Return the places and texts of an axis: 0 is the one across, 1 the one upwards."""
    labels = svg.split("role-axis-label")[1:][axis].split("</g>", maxsplit=1)[0]
    # A label that would overlap another one is there, but transparent.
    pattern = r'translate\(([-\d.]+),([-\d.]+)\)"[^>]*opacity="1">([^<]*)</text>'
    found = re.findall(pattern, labels)
    return [(float((x, y)[axis]), unescape(text)) for x, y, text in found]


# Specified when a test draws them: each worker of the tests reads this module.
BARS, AGES = partial(marks.bars, COLOURS, DAY), partial(marks.ages, DAY)
LATENCIES, SHARES = partial(marks.latencies, COLOURS, DAY), partial(marks.shares, COLOURS)


@pytest.mark.parametrize(
    ("specified", "low", "high", "texts"),
    [
        (BARS, 1, 1, ["0", "1"]),
        (BARS, 1, 7, ["0", "2", "4", "6", "8"]),
        (BARS, 1, 1_000_000, ["0", "200k", "400k", "600k", "800k", "1M"]),
        (AGES, 1, 0.2, ["0 s", "1 s", "2 s", "3 s", "4 s"]),
        (AGES, 1, 5_000, ["0 s", "30 min", "1 h", "1.5 h"]),
        (LATENCIES, 0.02, 500, ["100 ms", "1 s", "10 s", "1 min", "10 min"]),
        (LATENCIES, 0.4, 4, ["1 s", "3 s"]),
        (SHARES, 1, 1, ["0.01 %", "0.1 %", "1 %", "10 %", "100 %"]),
    ],
)  # fmt: skip
def test_ticks_are_round_and_apart(
    drawn: Drawn, specified: Callable[[], Any], low: float, high: float, texts: list[str]
) -> None:
    found = ticks(drawn(specified(), [], low, high), 1)

    assert [text for _, text in found] == texts
    assert all(below - above >= 12 for (below, _), (above, _) in pairwise(found))


@pytest.mark.parametrize("hours", [1 / 360, 0.1, 1, 7, 24, 75, 24 * 14, 24 * 400])
def test_times_of_an_axis_are_round_and_apart(drawn: Drawn, hours: float) -> None:
    since = int(datetime(2026, 11, 20, 3, 7, 11, tzinfo=UTC).timestamp() * 1000)
    length = timedelta(hours=hours) // timedelta(milliseconds=1)

    found = ticks(drawn(marks.ages(Times(since, since + length, length // 10)), []), 0)

    assert 2 <= len(found) <= 8
    assert all(re.fullmatch(r"\d+ \w{3}|\d\d:\d\d(:\d\d)?", text) for _, text in found)
    assert all(right - left >= 30 for (left, _), (right, _) in pairwise(found))


def test_line_has_a_gap_where_a_step_has_no_value(drawn: Drawn) -> None:
    rows = [{"at": n * DAY.step, "b": 2} | ({"a": 1} if n != 2 else {}) for n in range(5)]

    svg = drawn(marks.latencies(COLOURS, DAY), rows, 1, 2)

    lines = dict(re.findall(r'd="([^"]*)"[^>]*stroke="var\(--(teal|gold)\)"', svg))
    assert sorted((colour, path.count("M")) for path, colour in lines.items()) == [
        ("gold", 1),
        ("teal", 2),
    ]


def test_value_without_neighbours_is_a_dot(drawn: Drawn) -> None:
    rows = [{"at": 0, "a": 1, "b": 2, "alone": True}, {"at": DAY.step, "a": 1, "b": 2}]

    svg = drawn(marks.latencies(COLOURS, DAY), rows, 1, 2)

    dots = svg.partition("mark-symbol")[2].partition("</g>")[0]
    assert sorted(re.findall(r'fill="var\(--(\w+)\)"', dots)) == ["gold", "teal"]


def test_steps_have_their_texts(drawn: Drawn) -> None:
    rows = [{"at": n * DAY.step, "a": n, "text": f"step {n}\n<i>"} for n in range(3)]

    svg = drawn(marks.bars(COLOURS, DAY), rows, 1, 2)

    steps = svg.partition("steps_marks")[2]
    assert [unescape(t) for t in re.findall(r'aria-label="([^"]*)"', steps)] == [
        f"step {n}\n<i>" for n in range(3)
    ]
