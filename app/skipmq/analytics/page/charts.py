"""The charts of the page; each draws panels of the queues that it is asked for, on one scale."""

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

# Queues that are drawn first; the others are when they are asked for.
MOST_QUEUES = 6
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
# A tenth of a millisecond: what took no time at all is drawn at the floor of a logarithmic axis.
SHORTEST = 1e-4
# The forecast is drawn for this share of the time that is shown.
_AHEAD = 0.25


@dataclass(frozen=True, slots=True)
class Chart:
    """Panels of one kind, which stand side by side.

    `names` are the queues that it has, the first ones first; `draw` gives the panels of some of
    them, on one scale. `title` is empty where the section's says it.
    """

    id: str
    title: str
    legend: Legend
    names: Sequence[str]
    draw: Callable[[Sequence[str]], Markup]
    kind: Literal["grid", "bullets"] = "grid"
    most: int = MOST_QUEUES


def by_name(rows: Sequence[Row]) -> Rows:
    """Return the rows of each queue."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["name"], []).append(row)
    return found


def _begun(moment: datetime, step: timedelta) -> datetime:
    """Return when the step began that a moment is in, as the reports count them."""
    return moment - (moment - datetime.fromtimestamp(0, moment.tzinfo)) % step


def _axis(period: Period) -> Times:
    """Return the axis of whole steps: all charts of bars have the same."""
    end = _begun(period.until - timedelta(microseconds=1), period.bar) + period.bar
    return Times(_begun(period.since, period.bar), end)


def _middles(times: Times, step: timedelta) -> Callable[[Row], float]:
    """Return what gives the x of the middle of a row's step."""
    across = cache(lambda since: times.across(since + step / 2))
    return lambda row: across(row["since"])


def _joined(panels: Sequence[Markup]) -> Markup:
    return Markup("").join(panels)


def latency(rows: Rows, names: Sequence[str], period: Period) -> Chart:
    """Draw the percentiles of the three latencies, on one logarithmic scale."""
    times, step = _axis(period), period.bar
    ticks, width, middle = times.ticks(), marks.width_of(times, step), _middles(times, step)

    def values(queues: Sequence[str]) -> list[float]:
        columns = [f"{c}_{q}" for c, _ in _LATENCIES for q, _ in _QUANTILES]
        return [r[c] for name in queues for r in rows[name] for c in columns if r[c]]

    def one(name: str, column: str, label: str, scale: Scale) -> Markup:
        found = [row for row in rows[name] if row[f"{column}_p50"] is not None]
        drawn = [
            marks.line(_unbroken(found, f"{column}_{q}", step, middle, scale), colour)
            for q, colour in _QUANTILES
        ]
        said = (
            (
                middle(row),
                "\n".join(
                    [scales.spelled(row["since"], step)]
                    + [f"{q} {duration(row[f'{column}_{q}'])}" for q, _ in reversed(_QUANTILES)]
                ),
            )
            for row in found
        )
        return marks.panel((name, label), scale, ticks, drawn, marks.steps(said, width))

    def draw(queues: Sequence[str]) -> Markup:
        found = values(queues)
        low = max(min(found, default=0.1), SHORTEST)
        scale = scales.durations(low / 1.3, max([*found, low * 10]) * 1.3)
        return _joined([one(n, c, label, scale) for n in queues for c, label in _LATENCIES])

    legend = [(colour, q) for q, colour in reversed(_QUANTILES)]
    return Chart("latency-plots", "", legend, _with(rows, names), draw)


def _unbroken(
    rows: Sequence[Row],
    column: str,
    step: timedelta,
    middle: Callable[[Row], float],
    scale: Scale,
) -> list[marks.Point]:
    """Return the points of a line, with a gap where steps are missing."""
    points: list[marks.Point] = []
    last = None
    for row in rows:
        if last is not None and row["since"] - last > step:
            points.append((0, None))
        last = row["since"]
        points.append((middle(row), scale.down(row[column])))
    return points


def _with(rows: Rows, names: Sequence[str]) -> Sequence[str]:
    return [name for name in names if rows.get(name)]


def traffic(rows: Rows, names: Sequence[str], period: Period) -> Chart:
    """Draw what arrived as a line over what was settled as bars."""
    times, step = _axis(period), period.bar
    ticks, width, middle = times.ticks(), marks.width_of(times, step), _middles(times, step)
    rows = {n: [r for r in found if r["since"] >= times.since] for n, found in rows.items()}
    begins = [times.since + n * step for n in range((times.until - times.since) // step)]

    def most(name: str) -> int:
        found = (max(row["arrived"], sum(row[o] for o, _ in _OUTCOMES)) for row in rows[name])
        return int(max(found))

    def one(name: str, scale: Scale) -> Markup:
        there = {row["since"]: row["arrived"] for row in rows[name]}
        arrived = [(times.across(at + step / 2), scale.down(there.get(at, 0))) for at in begins]
        drawn = [*_stacked(rows[name], _OUTCOMES, middle, width, scale), marks.line(arrived, "ink")]
        said = (
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
        return marks.panel((name, note), scale, ticks, drawn, marks.steps(said, width))

    def draw(queues: Sequence[str]) -> Markup:
        scale = scales.counts(max(map(most, queues), default=1))
        return _joined([one(name, scale) for name in queues])

    there = {o for found in rows.values() for row in found for o, _ in _OUTCOMES if row[o]}
    legend = [("ink", "arrived"), *((c, _word(o)) for o, c in _OUTCOMES if o in there)]
    return Chart("traffic-plots", "", legend, _with(rows, names), draw)


def _word(outcome: str) -> str:
    return outcome.replace("_", "-")


def _stacked(
    rows: Sequence[Row],
    parts: Sequence[tuple[str, str]],
    middle: Callable[[Row], float],
    width: float,
    scale: Scale,
) -> list[str]:
    """Draw the columns of rows as bars upon each other."""
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
    """Draw how often messages were received, as bars on a logarithmic scale of shares."""
    width = (WIDTH - LEFT - RIGHT) / 11
    across = [LEFT + width * (n + 0.5) for n in range(11)]
    texts = [*map(str, range(10)), "10+"]
    ticks = list(zip(across, texts, strict=True))
    colours = ("grey", "teal", *("gold",) * 8, "orange")

    def one(name: str) -> Markup:
        found = {row["receives"]: row for row in rows[name]}
        shares = {n: row["share"] for n, row in found.items()}
        drawn = [
            marks.bars([(across[n], scales.SHARES.down(share), FLOOR)], colours[n], width)
            for n, share in shares.items()
        ]
        said = (
            (
                across[n],
                f"received {'never' if n == 0 else _times(texts[n])}\n"
                f"{percent(row['share'])}, {count(row['messages'])} messages",
            )
            for n, row in found.items()
        )
        again = percent(sum(share for n, share in shares.items() if n > 1))
        note = f"{again} redelivered"
        return marks.panel((name, note), scales.SHARES, ticks, drawn, marks.steps(said, width))

    def draw(queues: Sequence[str]) -> Markup:
        return _joined([one(name) for name in queues])

    legend = [
        ("grey", "never"),
        ("teal", "once"),
        ("gold", "again"),
        ("orange", "10 times, or more"),
    ]
    title = "How often messages were received"
    return Chart("receive-plots", title, legend, _with(rows, names), draw)


def _times(text: str) -> str:
    return "once" if text == "1" else f"{text} times"


def waiting(
    rows: Rows, forecasts: Rows, names: Sequence[str], period: Period, *, live: bool
) -> Chart:
    """Draw what waits; with live messages also where that leads."""
    room = (period.until - period.since) * _AHEAD if live else timedelta(0)
    times = Times(period.since, period.until + room)
    ticks, across = times.ticks(), cache(times.across)

    def ahead(name: str) -> list[tuple[datetime, float]]:
        """Return where the forecast begins and where it leads."""
        for row in forecasts.get(name, ()) if live else ():
            net, drains = row["in_per_second"] - row["out_per_second"], row["drains_in_seconds"]
            if not row["waiting"]:
                return []
            until = room if drains is None else min(room, timedelta(seconds=drains))
            end = max(row["waiting"] + net * until.total_seconds(), 0)
            return [(row["at"], row["waiting"]), (row["at"] + until, end)]
        return []

    def one(name: str, scale: Scale) -> Markup:
        points = [(across(r["at"]), scale.down(r["waiting"])) for r in rows[name]]
        leads = [(times.across(at), scale.down(value)) for at, value in ahead(name)]
        drawn = [
            marks.area(points, "teal"),
            marks.line(points, "teal"),
            marks.line(leads, "muted", " ahead"),
        ]
        said = _moments(rows[name], across)
        width = marks.width_of(times, period.step)
        return marks.panel((name, "messages"), scale, ticks, drawn, marks.steps(said, width))

    def draw(queues: Sequence[str]) -> Markup:
        values = [
            *(row["waiting"] for name in queues for row in rows[name]),
            *(value for name in queues for _, value in ahead(name)),
        ]
        scale = scales.counts(max(values, default=1))
        return _joined([one(name, scale) for name in queues])

    legend = [("teal", "messages"), *([("muted dashed", "at the latest rates")] if live else ())]
    return Chart("waiting-plots", "Messages not yet settled", legend, names, draw)


def _moments(
    rows: Sequence[Row], across: Callable[[datetime], float]
) -> Sequence[tuple[float, str]]:
    """Return what both charts of the backlog say: what is there twice packs well."""
    return [
        (
            across(row["at"]),
            f"{scales.moment(row['at'])}\n{count(row['waiting'])} not settled"
            f"\noldest {duration(row['oldest_age_seconds'])}",
        )
        for row in rows
    ]


def ages(rows: Rows, names: Sequence[str], period: Period) -> Chart:
    """Draw how old the oldest message is."""
    times = Times(period.since, period.until)
    ticks, width = times.ticks(), marks.width_of(times, period.step)
    across = cache(times.across)

    def one(name: str, scale: Scale) -> Markup:
        points = [(across(r["at"]), scale.down(r["oldest_age_seconds"])) for r in rows[name]]
        said = _moments(rows[name], across)
        drawn = [marks.line(points, "violet")]
        return marks.panel((name, "age"), scale, ticks, drawn, marks.steps(said, width))

    def draw(queues: Sequence[str]) -> Markup:
        values = [row["oldest_age_seconds"] for name in queues for row in rows[name]]
        scale = scales.seconds(max(values, default=1))
        return _joined([one(name, scale) for name in queues])

    return Chart("age-plots", "Age of the oldest of them", [], names, draw)


def consumers(rows: Rows, names: Sequence[str], period: Period) -> Chart:
    """Draw what was deleted through each node, as bars upon each other."""
    times, step = _axis(period), period.bar
    ticks, width, middle = times.ticks(), marks.width_of(times, step), _middles(times, step)
    totals: dict[str, int] = {}
    for row in (row for found in rows.values() for row in found):
        totals[row["node"]] = totals.get(row["node"], 0) + row["deleted"]
    first = sorted(totals, key=lambda node: (-totals[node], node))[: len(_NODES)]
    # By their place: a node may have any name.
    parts = [(str(place), colour) for place, colour in enumerate(_NODES[: len(first)])]
    places = {node: str(place) for place, node in enumerate(first)}

    @cache
    def by_step(name: str) -> list[Row]:
        """Return a row for each step: what each place has deleted, and what is said of it."""
        found: dict[datetime, dict[str, Any]] = {}
        for row in rows[name]:
            one = found.setdefault(row["since"], {"since": row["since"], "all": 0, "said": []})
            place = places.get(row["node"], "others")
            one[place] = one.get(place, 0) + row["deleted"]
            one["all"] += row["deleted"]
            one["said"].append(f"{row['node']} {count(row['deleted'])}")
        return list(found.values())

    def one(name: str, scale: Scale) -> Markup:
        found = by_step(name)
        drawn = _stacked(found, [*parts, ("others", _OTHERS)], middle, width, scale)
        said = (
            (
                middle(row),
                "\n".join([scales.spelled(row["since"], step), *row["said"]]),
            )
            for row in found
        )
        note = f"deleted in {duration(step.total_seconds())}"
        return marks.panel((name, note), scale, ticks, drawn, marks.steps(said, width))

    def draw(queues: Sequence[str]) -> Markup:
        most = max((row["all"] for name in queues for row in by_step(name)), default=1)
        scale = scales.counts(most)
        return _joined([one(name, scale) for name in queues])

    others = [(_OTHERS, "others")] if len(totals) > len(first) else []
    legend = [*((_NODES[place], node) for place, node in enumerate(first)), *others]
    return Chart("consumers-plots", "", legend, _with(rows, names), draw)
