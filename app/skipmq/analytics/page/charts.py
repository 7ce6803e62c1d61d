"""The charts of the page; each draws panels of some queues on a common scale."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Literal, TypeAlias

from markupsafe import Markup

from skipmq.analytics.page import marks, scales
from skipmq.analytics.page.findings import Row
from skipmq.analytics.page.numbers import count, duration, percent
from skipmq.analytics.page.scales import FLOOR, LEFT, RIGHT, WIDTH, Scale, Times
from skipmq.analytics.period import Period

# The number of queues drawn initially.
DEFAULT_QUEUES = 6
Rows: TypeAlias = Mapping[str, Sequence[Row]]
Legend: TypeAlias = Sequence[tuple[str, str]]

_LATENCIES = (
    ("send_to_receive", "send to first receive"),
    ("receive_to_delete", "first receive to delete"),
    ("send_to_delete", "send to delete"),
)
_QUANTILES = (("p99", "orange"), ("p95", "gold"), ("p50", "teal"))
_OUTCOMES = (
    ("deleted", "teal"),
    ("dead_lettered", "orange"),
    ("redriven", "gold"),
    ("expired", "violet"),
    ("purged", "grey"),
)
_NODES = ("teal", "orange", "green", "violet", "gold")
_OTHERS = "grey"
# The minimum of a logarithmic axis in seconds, at which 0 is drawn.
SHORTEST = 1e-4
# The length of the forecast relative to the period.
_FORECAST = 0.25


@dataclass(frozen=True, slots=True)
class Chart:
    """Panels of one kind.

    `names` are its queues, the most important first; `draw` draws the panels of some of them on a
    common scale, `most` is how many are drawn initially. `title` may be empty.
    """

    id: str
    title: str
    legend: Legend
    names: Sequence[str]
    draw: Callable[[Sequence[str]], Markup]
    kind: Literal["grid", "bullets"] = "grid"
    most: int = DEFAULT_QUEUES


def by_name(rows: Sequence[Row]) -> Rows:
    """Group rows by queue."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["name"], []).append(row)
    return groups


def _step_start(moment: datetime, step: timedelta) -> datetime:
    """Return the beginning of a time's step, which must be the same as in the reports."""
    return moment - (moment - datetime.fromtimestamp(0, moment.tzinfo)) % step


def _axis(period: Period) -> Times:
    """Return the common time axis of bar charts, which has whole steps."""
    end = _step_start(period.until - timedelta(microseconds=1), period.bar) + period.bar
    return Times(_step_start(period.since, period.bar), end)


def _middles(times: Times, step: timedelta) -> Callable[[Row], float]:
    """Return a function that returns the x of the middle of a row's step."""
    across = cache(lambda since: times.across(since + step / 2))
    return lambda row: across(row["since"])


def _joined(panels: Sequence[Markup]) -> Markup:
    return Markup("").join(panels)


def latency(rows: Rows, names: Sequence[str], period: Period) -> Chart:
    """Draw the percentiles of the three latencies on a logarithmic scale."""
    times, step = _axis(period), period.bar
    ticks, width, middle = times.ticks(), marks.width_of(times, step), _middles(times, step)

    def values(queues: Sequence[str]) -> list[float]:
        columns = [f"{c}_{q}" for c, _ in _LATENCIES for q, _ in _QUANTILES]
        return [r[c] for name in queues for r in rows[name] for c in columns if r[c]]

    def one(name: str, column: str, label: str, scale: Scale) -> Markup:
        measured = [row for row in rows[name] if row[f"{column}_p50"] is not None]
        drawn = [
            marks.line(_points(measured, f"{column}_{q}", step, middle, scale), colour)
            for q, colour in _QUANTILES
        ]
        tooltips = (
            (
                middle(row),
                "\n".join(
                    [scales.spelled(row["since"], step)]
                    + [f"{q} {duration(row[f'{column}_{q}'])}" for q, _ in reversed(_QUANTILES)]
                ),
            )
            for row in measured
        )
        return marks.panel((name, label), scale, ticks, drawn, marks.steps(tooltips, width))

    def draw(queues: Sequence[str]) -> Markup:
        latencies = values(queues)
        low = max(min(latencies, default=0.1), SHORTEST)
        scale = scales.durations(low / 1.3, max([*latencies, low * 10]) * 1.3)
        return _joined([one(n, c, label, scale) for n in queues for c, label in _LATENCIES])

    legend = [(colour, q) for q, colour in reversed(_QUANTILES)]
    return Chart("latency-plots", "", legend, _with_rows(rows, names), draw)


def _points(
    rows: Sequence[Row],
    column: str,
    step: timedelta,
    middle: Callable[[Row], float],
    scale: Scale,
) -> list[marks.Point]:
    """Return the points of a line, with gaps for missing steps."""
    points: list[marks.Point] = []
    last = None
    for row in rows:
        if last is not None and row["since"] - last > step:
            points.append((0, None))
        last = row["since"]
        points.append((middle(row), scale.down(row[column])))
    return points


def _with_rows(rows: Rows, names: Sequence[str]) -> Sequence[str]:
    return [name for name in names if rows.get(name)]


def traffic(rows: Rows, names: Sequence[str], period: Period) -> Chart:
    """Draw arrivals as a line over settlements as bars."""
    times, step = _axis(period), period.bar
    ticks, width, middle = times.ticks(), marks.width_of(times, step), _middles(times, step)
    rows = {n: [r for r in each if r["since"] >= times.since] for n, each in rows.items()}
    starts = [times.since + n * step for n in range((times.until - times.since) // step)]

    def maximum(name: str) -> int:
        return int(max(max(r["arrived"], sum(r[o] for o, _ in _OUTCOMES)) for r in rows[name]))

    def one(name: str, scale: Scale) -> Markup:
        arrivals = {row["since"]: row["arrived"] for row in rows[name]}
        line = [(times.across(at + step / 2), scale.down(arrivals.get(at, 0))) for at in starts]
        drawn = [*_stacked(rows[name], _OUTCOMES, middle, width, scale), marks.line(line, "ink")]
        tooltips = (
            (
                middle(row),
                "\n".join(
                    [scales.spelled(row["since"], step), f"arrived {count(row['arrived'])}"]
                    + [f"{_word(o)} {count(row[o])}" for o, _ in _OUTCOMES if row[o]]
                ),
            )
            for row in rows[name]
        )
        note = f"messages in {duration(step.total_seconds())}"
        return marks.panel((name, note), scale, ticks, drawn, marks.steps(tooltips, width))

    def draw(queues: Sequence[str]) -> Markup:
        scale = scales.counts(max(map(maximum, queues), default=1))
        return _joined([one(name, scale) for name in queues])

    outcomes = {o for each in rows.values() for row in each for o, _ in _OUTCOMES if row[o]}
    legend = [("ink", "arrived"), *((c, _word(o)) for o, c in _OUTCOMES if o in outcomes)]
    return Chart("traffic-plots", "", legend, _with_rows(rows, names), draw)


def _word(outcome: str) -> str:
    return outcome.replace("_", "-")


def _stacked(
    rows: Sequence[Row],
    parts: Sequence[tuple[str, str]],
    middle: Callable[[Row], float],
    width: float,
    scale: Scale,
) -> list[str]:
    """Draw the columns of rows as stacked bars."""
    below = dict.fromkeys((row["since"] for row in rows), 0)
    drawn = []
    for column, colour in parts:
        boxes = []
        for row in rows:
            low = below[row["since"]]
            high = below[row["since"]] = low + row.get(column, 0)
            boxes.append((middle(row), scale.down(high), scale.down(low)))
        drawn.append(marks.bars(boxes, colour, width))
    return drawn


def receive_counts(rows: Rows, names: Sequence[str]) -> Chart:
    """Draw the receive counts of messages as bars on a logarithmic scale of shares."""
    width = (WIDTH - LEFT - RIGHT) / 11
    across = [LEFT + width * (n + 0.5) for n in range(11)]
    texts = [*map(str, range(10)), "10+"]
    ticks = list(zip(across, texts, strict=True))
    colours = ("grey", "teal", *("gold",) * 8, "orange")

    def one(name: str) -> Markup:
        by_receives = {row["receives"]: row for row in rows[name]}
        shares = {n: row["share"] for n, row in by_receives.items()}
        drawn = [
            marks.bars([(across[n], scales.SHARES.down(share), FLOOR)], colours[n], width)
            for n, share in shares.items()
        ]
        tooltips = (
            (
                across[n],
                f"received {'never' if n == 0 else _times(texts[n])}\n"
                f"{percent(row['share'])}, {count(row['messages'])} messages",
            )
            for n, row in by_receives.items()
        )
        note = f"{percent(sum(share for n, share in shares.items() if n > 1))} redelivered"
        return marks.panel((name, note), scales.SHARES, ticks, drawn, marks.steps(tooltips, width))

    def draw(queues: Sequence[str]) -> Markup:
        return _joined([one(name) for name in queues])

    legend = [
        ("grey", "never"),
        ("teal", "once"),
        ("gold", "repeatedly"),
        ("orange", "10 times or more"),
    ]
    title = "Receives per message"
    return Chart("receive-plots", title, legend, _with_rows(rows, names), draw)


def _times(text: str) -> str:
    return "once" if text == "1" else f"{text} times"


def waiting(
    rows: Rows, forecasts: Rows, names: Sequence[str], period: Period, *, live: bool
) -> Chart:
    """Draw the backlog; with live messages also the forecast."""
    length = (period.until - period.since) * _FORECAST if live else timedelta(0)
    times = Times(period.since, period.until + length)
    ticks, across = times.ticks(), cache(times.across)

    def forecast(name: str) -> list[tuple[datetime, float]]:
        """Return the first and the last point of the forecast."""
        for row in forecasts.get(name, ()) if live else ():
            net, drains = row["in_per_second"] - row["out_per_second"], row["drains_in_seconds"]
            if not row["waiting"]:
                return []
            until = length if drains is None else min(length, timedelta(seconds=drains))
            end = max(row["waiting"] + net * until.total_seconds(), 0)
            return [(row["at"], row["waiting"]), (row["at"] + until, end)]
        return []

    def one(name: str, scale: Scale) -> Markup:
        points = [(across(r["at"]), scale.down(r["waiting"])) for r in rows[name]]
        ahead = [(times.across(at), scale.down(value)) for at, value in forecast(name)]
        drawn = [
            marks.area(points, "teal"),
            marks.line(points, "teal"),
            marks.line(ahead, "muted", " ahead"),
        ]
        tooltips = _backlog_tooltips(rows[name], across)
        width = marks.width_of(times, period.step)
        return marks.panel((name, "messages"), scale, ticks, drawn, marks.steps(tooltips, width))

    def draw(queues: Sequence[str]) -> Markup:
        values = [
            *(row["waiting"] for name in queues for row in rows[name]),
            *(value for name in queues for _, value in forecast(name)),
        ]
        scale = scales.counts(max(values, default=1))
        return _joined([one(name, scale) for name in queues])

    legend = [("teal", "messages"), *([("muted dashed", "at the present rates")] if live else ())]
    return Chart("waiting-plots", "Messages not yet settled", legend, names, draw)


def _backlog_tooltips(
    rows: Sequence[Row], across: Callable[[datetime], float]
) -> Sequence[tuple[float, str]]:
    """Return the tooltips of both backlog charts, which are equal so that they compress well."""
    return [
        (
            across(row["at"]),
            f"{scales.moment(row['at'])}\n{count(row['waiting'])} not settled"
            f"\noldest {duration(row['oldest_age_seconds'])}",
        )
        for row in rows
    ]


def ages(rows: Rows, names: Sequence[str], period: Period) -> Chart:
    """Draw the age of the oldest message."""
    times = Times(period.since, period.until)
    ticks, width = times.ticks(), marks.width_of(times, period.step)
    across = cache(times.across)

    def one(name: str, scale: Scale) -> Markup:
        points = [(across(r["at"]), scale.down(r["oldest_age_seconds"])) for r in rows[name]]
        tooltips = _backlog_tooltips(rows[name], across)
        drawn = [marks.line(points, "violet")]
        return marks.panel((name, "age"), scale, ticks, drawn, marks.steps(tooltips, width))

    def draw(queues: Sequence[str]) -> Markup:
        values = [row["oldest_age_seconds"] for name in queues for row in rows[name]]
        scale = scales.seconds(max(values, default=1))
        return _joined([one(name, scale) for name in queues])

    return Chart("age-plots", "Age of the oldest message", [], names, draw)


def consumers(rows: Rows, names: Sequence[str], period: Period) -> Chart:
    """Draw the messages deleted through each node as stacked bars."""
    times, step = _axis(period), period.bar
    ticks, width, middle = times.ticks(), marks.width_of(times, step), _middles(times, step)
    totals: dict[str, int] = {}
    for row in (row for each in rows.values() for row in each):
        totals[row["node"]] = totals.get(row["node"], 0) + row["deleted"]
    busiest = sorted(totals, key=lambda node: (-totals[node], node))[: len(_NODES)]
    # Keyed by rank, because a node's name could collide with other keys.
    parts = [(str(rank), colour) for rank, colour in enumerate(_NODES[: len(busiest)])]
    ranks = {node: str(rank) for rank, node in enumerate(busiest)}

    @cache
    def by_step(name: str) -> list[Row]:
        """Return a row for each step, with the count of each rank and the lines of the tooltip."""
        steps: dict[datetime, dict[str, Any]] = {}
        for row in rows[name]:
            one = steps.setdefault(row["since"], {"since": row["since"], "all": 0, "lines": []})
            rank = ranks.get(row["node"], "others")
            one[rank] = one.get(rank, 0) + row["deleted"]
            one["all"] += row["deleted"]
            one["lines"].append(f"{row['node']} {count(row['deleted'])}")
        return list(steps.values())

    def one(name: str, scale: Scale) -> Markup:
        steps = by_step(name)
        drawn = _stacked(steps, [*parts, ("others", _OTHERS)], middle, width, scale)
        tooltips = (
            (
                middle(row),
                "\n".join([scales.spelled(row["since"], step), *row["lines"]]),
            )
            for row in steps
        )
        note = f"deleted in {duration(step.total_seconds())}"
        return marks.panel((name, note), scale, ticks, drawn, marks.steps(tooltips, width))

    def draw(queues: Sequence[str]) -> Markup:
        maximum = max((row["all"] for name in queues for row in by_step(name)), default=1)
        return _joined([one(name, scales.counts(maximum)) for name in queues])

    others = [(_OTHERS, "others")] if len(totals) > len(busiest) else []
    legend = [*((_NODES[rank], node) for rank, node in enumerate(busiest)), *others]
    return Chart("consumers-plots", "", legend, _with_rows(rows, names), draw)
