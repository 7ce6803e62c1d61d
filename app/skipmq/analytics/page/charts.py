"""The plots of the page; each takes rows of a report and gives SVG, or nothing for no rows."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from skipmq.analytics.page import drawing
from skipmq.analytics.page.drawing import (
    GOLD,
    GREY,
    INK,
    MUTED,
    ORANGE,
    SERIES,
    TEAL,
    VIOLET,
    panels,
    svg,
    title,
)
from skipmq.analytics.page.findings import Row
from skipmq.analytics.page.numbers import count, duration, percent
from skipmq.analytics.period import Period

# Queues that are drawn; the tables have all.
MOST_QUEUES = 6
_LATENCIES = (
    ("send_to_receive", "send to first receive"),
    ("receive_to_delete", "first receive to delete"),
    ("send_to_delete", "send to delete"),
)
_QUANTILES = (("p50", TEAL, 1.8), ("p95", GOLD, 1.3), ("p99", ORANGE, 1.3))
_OUTCOMES = (
    ("deleted", TEAL),
    ("dead_lettered", ORANGE),
    ("redriven", GOLD),
    ("expired", VIOLET),
    ("purged", GREY),
)
# Of a step, what its bar takes.
_FULL = 0.87
# The forecast is drawn for at most this share of the time that is shown.
_AHEAD = 0.35
_NODES = len(SERIES) - 1


def _of(rows: Sequence[Row], name: str) -> list[Row]:
    return [row for row in rows if row["name"] == name]


def latency(rows: Sequence[Row], names: Sequence[str], period: Period) -> str:
    """Draw the percentiles of the three latencies, a row of panels for each queue."""
    names = [name for name in names if _of(rows, name)]
    if not names:
        return ""
    figure, axes = panels(len(names), len(_LATENCIES))
    span = _span(rows, names, period)
    for name, across in zip(names, axes, strict=True):
        found = _of(rows, name)
        times = [row["since"] + period.bar / 2 for row in found]
        scale = [row[f"{c}_{q}"] for row in found for c, _ in _LATENCIES for q, _, _ in _QUANTILES]
        for (column, label), one in zip(_LATENCIES, across, strict=True):
            values = {q: [row[f"{column}_{q}"] for row in found] for q, _, _ in _QUANTILES}
            if any(value is not None for value in values["p50"]):
                _band(one, times, values)
            drawing.durations(one, scale)
            drawing.times(one, *span)
            title(one, name if column == "send_to_receive" else "", label)
    drawing.legend(figure, [Line2D([], [], color=c, lw=2, label=q) for q, c, _ in _QUANTILES])
    return svg(figure)


def _band(axes: Any, times: Sequence[datetime], values: dict[str, list[float | None]]) -> None:
    nan = float("nan")
    lines = {q: [nan if v is None else max(v, 1e-4) for v in line] for q, line in values.items()}
    axes.fill_between(times, lines["p50"], lines["p99"], color=ORANGE, alpha=0.09, lw=0)
    for quantile, colour, width in _QUANTILES:
        axes.plot(times, lines[quantile], color=colour, lw=width, marker="o", ms=2.2)


def _span(rows: Sequence[Row], names: Sequence[str], period: Period) -> tuple[datetime, datetime]:
    """Return where the axes of all panels begin, where data do, and where they end."""
    begins = [row["since"] for row in rows if row["name"] in names]
    return min(begins), max(period.until, max(begins) + period.bar)


def traffic(rows: Sequence[Row], names: Sequence[str], period: Period) -> str:
    """Draw what came as a line over what was settled as bars, a panel for each queue."""
    rows = [row for row in rows if row["since"] > period.since - period.bar]
    names = [name for name in names if _of(rows, name)]
    if not names:
        return ""
    figure, axes = panels(-(-len(names) // 2), 2)
    span, width = _span(rows, names, period), period.bar * _FULL
    for name, one in zip(names, axes.flat, strict=False):
        found = _of(rows, name)
        times = [row["since"] + period.bar / 2 for row in found]
        below = [0] * len(found)
        for outcome, colour in _OUTCOMES:
            more = [row[outcome] for row in found]
            one.bar(times, more, width=width, bottom=below, color=colour, alpha=0.85)
            below = [low + high for low, high in zip(below, more, strict=True)]
        arrived = [row["arrived"] for row in found]
        one.plot(times, arrived, color=INK, lw=1.4, marker="o", ms=2.4)
        drawing.counts(one, max([*below, *arrived], default=1))
        drawing.times(one, *span)
        title(one, name, f"messages in {duration(period.bar.total_seconds())}")
    _hide(axes, len(names))
    handles = [Patch(color=c, label=o.replace("_", "-")) for o, c in _OUTCOMES]
    drawing.legend(figure, [Line2D([], [], color=INK, lw=1.6, label="arrived"), *handles])
    return svg(figure)


def _hide(axes: Any, used: int) -> None:
    for one in list(axes.flat)[used:]:
        one.set_visible(False)


def receive_counts(rows: Sequence[Row], names: Sequence[str]) -> str:
    """Draw how often messages were received, as bars on a logarithmic scale of shares."""
    names = [name for name in names if _of(rows, name)]
    if not names:
        return ""
    figure, axes = panels(-(-len(names) // 3), 3, height=1.6)
    for name, one in zip(names, axes.flat, strict=False):
        found = {row["receives"]: row["share"] for row in _of(rows, name)}
        shares = [found.get(n, 0) for n in range(11)]
        colours = [GREY, TEAL, *[GOLD] * 8, ORANGE]
        one.bar(range(11), [share * 100 for share in shares], color=colours, width=0.8)
        one.set_yscale("log")
        one.set_ylim(0.005, 250)
        one.set_yticks([0.01, 0.1, 1, 10, 100], ["0.01 %", "0.1 %", "1 %", "10 %", "100 %"])
        one.minorticks_off()
        one.set_xticks(range(11), [*map(str, range(10)), "10+"])
        again = sum(shares[2:])
        title(one, name, f"{percent(again)} more than once")
    _hide(axes, len(names))
    return svg(figure)


def visibility(rows: Sequence[Row], names: Sequence[str]) -> str:
    """Draw for each queue how long work takes, from half to 99 % of it, against the timeout."""
    found = [row for name in names for row in _of(rows, name) if row["processing_p50"] is not None]
    if not found:
        return ""
    figure, axes = panels(1, 1, height=0.38 * len(found) + 0.75)
    one = axes[0][0]
    one.grid(axis="y", visible=False)
    one.grid(axis="x", color=drawing.LINE, lw=0.7)
    for y, row in enumerate(found):
        _bullet(one, y, row)
    one.set_yticks(range(len(found)), [row["name"] for row in found], fontsize=8.5, color=INK)
    one.set_ylim(len(found) - 0.4, -0.6)
    _logarithmic_durations(one, found)
    handles = [
        Line2D([], [], color=TEAL, lw=6, label="half to 95 % of the work"),
        Line2D([], [], color=TEAL, lw=2.5, alpha=0.6, label="to 99 %"),
        Line2D([], [], color=INK, lw=0, marker="|", ms=11, mew=2.2, label="visibility timeout"),
        Line2D([], [], color=ORANGE, lw=0, marker="D", ms=5, label="advised"),
    ]
    drawing.legend(figure, handles)
    return svg(figure)


def _bullet(axes: Any, y: int, row: Row) -> None:
    p50, p95, p99 = (max(row[f"processing_{q}"], 1e-4) for q in ("p50", "p95", "p99"))
    timeout, better = row["visibility_timeout"], row["suggested_timeout"]
    axes.plot([p50, p99], [y, y], color=TEAL, lw=2.5, alpha=0.6, solid_capstyle="butt")
    axes.plot([p50, p95], [y, y], color=TEAL, lw=8, solid_capstyle="butt")
    if timeout:
        axes.plot([timeout], [y], color=INK, marker="|", ms=14, mew=2.4)
    if better and better != timeout:
        axes.plot([better], [y], color=ORANGE, marker="D", ms=5.5)


def _logarithmic_durations(axes: Any, rows: Sequence[Row]) -> None:
    columns = ("processing_p50", "processing_p99", "visibility_timeout", "suggested_timeout")
    values = [max(row[c], 1e-4) for row in rows for c in columns if row[c]]
    low, high = min(values, default=0.1) / 1.8, max(values, default=60) * 1.8
    ticks = [0.001, 0.01, 0.1, 1, 5, 30, 60, 300, 1_800, 3_600, 14_400, 43_200]
    shown = [tick for tick in ticks if low <= tick <= high]
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.set_xticks(shown, [duration(tick) for tick in shown])
    axes.minorticks_off()


def backlog(
    rows: Sequence[Row],
    forecasts: Sequence[Row],
    names: Sequence[str],
    period: Period,
    *,
    live: bool,
) -> str:
    """Draw what waits and how old the oldest is; with live messages also where that leads."""
    names = [name for name in names if any(row["waiting"] for row in _of(rows, name))]
    if not names:
        return ""
    begin = min(row["at"] for row in rows if row["waiting"]) - period.step
    figure, axes = panels(len(names), 2)
    for name, (left, right) in zip(names, axes, strict=True):
        found = _of(rows, name)
        at, waiting = [row["at"] for row in found], [row["waiting"] for row in found]
        ages = [row["oldest_age_seconds"] for row in found]
        left.fill_between(at, waiting, color=TEAL, alpha=0.22, lw=0)
        left.plot(at, waiting, color=TEAL, lw=1.6)
        right.plot(at, ages, color=VIOLET, lw=1.6)
        drawing.counts(left, max(waiting))
        right.set_ylim(0, max([*ages, 1]) * 1.15)
        right.yaxis.set_major_locator(MaxNLocator(3))
        right.yaxis.set_major_formatter(lambda value, _: duration(value))
        end = _ahead(left, _of(forecasts, name), period) if live else period.until
        for one in (left, right):
            drawing.times(one, max(period.since, begin), end)
        title(left, name, "not yet settled")
        title(right, "", "age of the oldest")
    drawing.legend(figure, _backlog_handles(live=live))
    return svg(figure)


def _backlog_handles(*, live: bool) -> list[Line2D]:
    return [
        Line2D([], [], color=TEAL, lw=2, label="messages"),
        Line2D([], [], color=VIOLET, lw=2, label="age"),
        *([Line2D([], [], color=MUTED, lw=1.6, ls="--", label="as things go")] if live else ()),
    ]


def _ahead(axes: Any, forecasts: Sequence[Row], period: Period) -> datetime:
    """Draw the forecast; return where the axis ends."""
    room = (period.until - period.since) * _AHEAD
    for row in forecasts:
        net = row["in_per_second"] - row["out_per_second"]
        drains = row["drains_in_seconds"]
        if not row["waiting"]:
            return period.until
        ahead = room if drains is None else min(room, timedelta(seconds=drains))
        end = row["waiting"] + net * ahead.total_seconds()
        axes.plot(
            [row["at"], row["at"] + ahead],
            [row["waiting"], max(end, 0)],
            color=MUTED,
            lw=1.4,
            ls="--",
        )
        drawing.counts(axes, max(end, axes.get_ylim()[1] / 1.12))
        return period.until + max(ahead, room / 4)
    return period.until


def consumers(rows: Sequence[Row], names: Sequence[str], period: Period) -> str:
    """Draw what was deleted through each node, as bars upon each other, a panel for each queue."""
    names = [name for name in names if _of(rows, name)]
    if not names:
        return ""
    totals: dict[str, int] = {}
    for row in rows:
        totals[row["node"]] = totals.get(row["node"], 0) + row["deleted"]
    first = sorted(totals, key=lambda node: -totals[node])[:_NODES]
    colours = dict(zip(first, SERIES, strict=False))
    figure, axes = panels(-(-len(names) // 2), 2)
    span = _span(rows, names, period)
    for name, one in zip(names, axes.flat, strict=False):
        below: dict[datetime, int] = {}
        for node in [*first, *sorted(set(totals) - set(first))]:
            for row in _of(rows, name):
                if row["node"] == node:
                    at = row["since"] + period.bar / 2
                    one.bar(
                        at, row["deleted"], width=period.bar * _FULL, bottom=below.get(at, 0),
                        color=colours.get(node, GREY), alpha=0.85,
                    )  # fmt: skip
                    below[at] = below.get(at, 0) + row["deleted"]
        drawing.counts(one, max(below.values()))
        drawing.times(one, *span)
        each = duration(period.bar.total_seconds())
        title(one, name, f"deleted in {each}, {count(sum(below.values()))} in all")
    _hide(axes, len(names))
    others = [Patch(color=GREY, label="others")] if len(totals) > _NODES else []
    drawing.legend(figure, [Patch(color=c, label=n) for n, c in colours.items()] + others)
    return svg(figure)
