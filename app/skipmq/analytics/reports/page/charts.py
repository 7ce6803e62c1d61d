"""The charts of the page: what Vega draws, and the rows of each queue that it draws."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from skipmq.analytics.reports.page import marks
from skipmq.analytics.reports.page.findings import Row
from skipmq.analytics.reports.page.numbers import count, duration, percent, spelled, time
from skipmq.analytics.reports.period import Period

Rows: TypeAlias = Mapping[str, Sequence[Row]]
Legend: TypeAlias = Sequence[tuple[str, str]]

# The number of queues drawn initially.
_QUEUES = 6
_LATENCIES = (
    ("send_to_receive", "send to first receive"),
    ("receive_to_delete", "first receive to delete"),
    ("send_to_delete", "send to delete"),
)
_QUANTILES = {"p50": "teal", "p95": "gold", "p99": "orange"}
_OUTCOMES = {
    "deleted": "teal", "dead_lettered": "orange", "redriven": "gold", "expired": "violet",
    "purged": "grey",
}  # fmt: skip
_NODES = ("teal", "orange", "green", "violet", "gold")
_RECEIVES = {"never": "grey", "once": "teal", "repeatedly": "gold", "10 times or more": "orange"}
_BULLETS = (
    ("teal", "work, p50 to p95"),
    ("teal thin", "to p99"),
    ("ink upright", "visibility timeout"),
    ("orange diamond", "recommended timeout"),
)
# The length of the forecast relative to the period.
_FORECAST = 0.25


@dataclass(frozen=True, slots=True)
class Panel:
    """A drawing of a queue: a note, and rows, each with the `text` of its tooltip."""

    queue: str
    note: str
    rows: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Chart:
    """Panels of one kind, which are drawn on a common scale: the range of the columns `measures`.

    `specification` is Vega's, `panels` has those of each queue, the most important first, `most`
    is how many queues are drawn initially. `title` may be empty. The panels of a chart that is
    `single` become one.
    """

    id: str
    title: str
    legend: Legend
    specification: Mapping[str, Any]
    panels: Mapping[str, Sequence[Panel]]
    measures: Sequence[str]
    single: bool = False
    most: int = _QUEUES


def by_name(rows: Sequence[Row]) -> Rows:
    """Group rows by queue."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["name"], []).append(row)
    return groups


def milliseconds(moment: datetime) -> int:
    """Return a time as Vega has it."""
    return round(moment.timestamp() * 1000)


def _figures(number: float) -> float:
    """Round a number to what a drawing shows: the page has many of them."""
    return float(f"{number:.4g}") if isinstance(number, float) else number


def _start(moment: datetime, step: timedelta) -> datetime:
    """Return the beginning of a time's step, which must be the same as in the reports."""
    return moment - (moment - datetime.fromtimestamp(0, moment.tzinfo)) % step


def _axis(period: Period) -> marks.Times:
    """Return the common time axis of charts with steps, which has whole ones."""
    end = _start(period.until - timedelta(microseconds=1), period.bar) + period.bar
    since = _start(period.since, period.bar)
    return marks.Times(milliseconds(since), milliseconds(end), _length(period.bar))


def _length(step: timedelta) -> int:
    return round(step / timedelta(milliseconds=1))


def _step(row: Row, period: Period, lines: Sequence[str], **values: float | None) -> dict[str, Any]:
    text = "\n".join([spelled(row["since"], period.bar), *lines])
    return {"at": milliseconds(row["since"]), "text": text} | values


def latency(rows: Rows, names: Sequence[str], period: Period) -> Chart:
    """Draw the percentiles of the three latencies on a logarithmic scale."""

    def steps(name: str, column: str) -> Iterator[dict[str, Any]]:
        measured = [row for row in rows[name] if row[f"{column}_p50"] is not None]
        times = {row["since"] for row in measured}
        for row in measured:
            before, after = (row["since"] + step in times for step in (-period.bar, period.bar))
            values = {q: row[f"{column}_{q}"] for q in _QUANTILES}
            lines = [f"{q} {duration(value)}" for q, value in values.items()]
            shown = {q: _figures(max(value, marks.SHORTEST)) for q, value in values.items()}
            if not before and not after:
                shown["alone"] = True
            yield _step(row, period, lines, **shown)
            if not after:
                # Without values: a gap in the lines.
                yield {"at": milliseconds(row["since"] + period.bar)}

    panels = {
        name: [Panel(name, label, list(steps(name, column))) for column, label in _LATENCIES]
        for name in names
        if rows.get(name)
    }
    legend = [(colour, q) for q, colour in _QUANTILES.items()]
    drawn = marks.latencies(_QUANTILES, _axis(period))
    return Chart("latency-plots", "", legend, drawn, panels, tuple(_QUANTILES))


def traffic(rows: Rows, names: Sequence[str], period: Period) -> Chart:
    """Draw arrivals as a line over settlements as bars."""
    times = _axis(period)
    starts = range(times.since, times.until, times.step)

    def steps(name: str) -> Iterator[dict[str, Any]]:
        quiet = set(starts)
        for row in (row for row in rows[name] if milliseconds(row["since"]) in quiet):
            settled = {o: row[o] for o in _OUTCOMES if row[o]}
            lines = [
                f"{_word(o)} {count(n)}" for o, n in [("arrived", row["arrived"]), *settled.items()]
            ]
            total = sum(settled.values())
            yield _step(row, period, lines, arrived=row["arrived"], total=total, **settled)
            quiet.remove(milliseconds(row["since"]))
        yield from ({"at": at, "arrived": 0} for at in quiet)

    note = f"messages in {duration(period.bar.total_seconds())}"
    panels = {n: [Panel(n, note, list(steps(n)))] for n in names if rows.get(n)}
    present = {o for each in rows.values() for row in each for o in _OUTCOMES if row[o]}
    legend = [("ink", "arrived"), *((c, _word(o)) for o, c in _OUTCOMES.items() if o in present)]
    drawn = marks.bars(_OUTCOMES, times, line="arrived")
    return Chart("traffic-plots", "", legend, drawn, panels, ("arrived", "total"))


def _word(outcome: str) -> str:
    return outcome.replace("_", "-")


def receive_counts(rows: Rows, names: Sequence[str]) -> Chart:
    """Draw the receive counts of messages as bars on a logarithmic scale of shares."""
    never, once, repeatedly, often = _RECEIVES.values()
    colours = [never, once, *[repeatedly] * 8, often]
    texts = [*map(str, range(10)), "10+"]

    def bars(name: str) -> Iterator[dict[str, Any]]:
        for row in rows[name]:
            times = ("never", "once", *(f"{text} times" for text in texts[2:]))[row["receives"]]
            share = f"{percent(row['share'])}, {count(row['messages'])} messages"
            text = f"received {times}\n{share}"
            yield {
                "receives": texts[row["receives"]],
                "share": _figures(row["share"]),
                "text": text,
            }

    def note(name: str) -> str:
        share = sum(row["share"] for row in rows[name] if row["receives"] > 1)
        return f"{percent(share)} redelivered"

    panels = {n: [Panel(n, note(n), list(bars(n)))] for n in names if rows.get(n)}
    legend = [(colour, text) for text, colour in _RECEIVES.items()]
    drawn = marks.shares(dict(zip(texts, colours, strict=True)))
    return Chart("receive-plots", "Receives per message", legend, drawn, panels, ())


def waiting(
    rows: Rows, forecasts: Rows, names: Sequence[str], period: Period, *, live: bool
) -> Chart:
    """Draw the backlog; with live messages also the forecast."""
    length = (period.until - period.since) * _FORECAST if live else timedelta(0)
    times = marks.Times(
        milliseconds(period.since), milliseconds(period.until + length), _length(period.step)
    )

    def forecast(name: str) -> Iterator[dict[str, Any]]:
        """Yield the first and the last point of the forecast."""
        for row in forecasts.get(name, ()) if live else ():
            if row["waiting"]:
                net, drains = row["in_per_second"] - row["out_per_second"], row["drains_in_seconds"]
                until = length if drains is None else min(length, timedelta(seconds=drains))
                end = max(row["waiting"] + net * until.total_seconds(), 0)
                begin = row["at"] - period.step / 2
                yield {"at": milliseconds(begin), "ahead": row["waiting"]}
                yield {"at": milliseconds(begin + until), "ahead": _figures(end)}

    panels = {
        n: [Panel(n, "messages", [*_backlog(rows[n], period.step, "waiting"), *forecast(n)])]
        for n in names
    }
    legend = [("teal", "messages"), *([("muted dashed", "at the present rates")] if live else ())]
    title, drawn = "Messages not yet received", marks.backlog(times)
    return Chart("waiting-plots", title, legend, drawn, panels, ("waiting", "ahead"))


def _backlog(rows: Sequence[Row], step: timedelta, column: str) -> Iterator[dict[str, Any]]:
    for row in rows:
        waits = f"{count(row['waiting'])} waiting, {count(row['unsettled'])} not settled"
        text = f"{time(row['at'])}\n{waits}\noldest {duration(row['oldest_age_seconds'])}"
        yield {
            "at": milliseconds(row["at"] - step / 2),
            "text": text,
            column: _figures(row[column]),
        }


def ages(rows: Rows, names: Sequence[str], period: Period) -> Chart:
    """Draw the age of the oldest message."""
    since, until = milliseconds(period.since), milliseconds(period.until)
    drawn = marks.ages(marks.Times(since, until, _length(period.step)))
    age = "oldest_age_seconds"
    panels = {n: [Panel(n, "age", list(_backlog(rows[n], period.step, age)))] for n in names}
    return Chart("age-plots", "Age of the oldest of these", (), drawn, panels, (age,))


def consumers(rows: Rows, names: Sequence[str], period: Period) -> Chart:
    """Draw the messages deleted through each node as stacked bars."""
    totals: dict[str, int] = {}
    for row in (row for each in rows.values() for row in each):
        totals[row["node"]] = totals.get(row["node"], 0) + row["deleted"]
    busiest = sorted(totals, key=lambda node: (-totals[node], node))[: len(_NODES)]
    # Keyed by rank, because a node's name could collide with other keys.
    ranks = {node: f"node{rank}" for rank, node in enumerate(busiest)}
    parts = dict(zip(ranks.values(), _NODES, strict=False)) | {"others": "grey"}

    def steps(name: str) -> Iterator[dict[str, Any]]:
        since: dict[datetime, list[Row]] = {}
        for row in rows[name]:
            since.setdefault(row["since"], []).append(row)
        for each in since.values():
            deleted = dict.fromkeys(parts, 0)
            for row in each:
                deleted[ranks.get(row["node"], "others")] += row["deleted"]
            total = sum(deleted.values())
            lines = [f"{row['node']} {count(row['deleted'])}" for row in each]
            shown = {part: number for part, number in deleted.items() if number}
            yield _step(each[0], period, lines, total=total, **shown)

    note = f"deleted in {duration(period.bar.total_seconds())}"
    panels = {n: [Panel(n, note, list(steps(n)))] for n in names if rows.get(n)}
    others = [("grey", "others")] if len(totals) > len(busiest) else []
    legend = [*zip(_NODES, busiest, strict=False), *others]
    drawn = marks.bars(parts, _axis(period))
    return Chart("consumers-plots", "", legend, drawn, panels, ("total",))


def visibility(rows: Rows, names: Sequence[str]) -> Chart:
    """Draw the processing times of each queue, p50 to p99, against its visibility timeout."""

    def text(row: Row) -> str:
        suggested = row["suggested_timeout"]
        lines = [
            f"{row['name']}, first receive to delete",
            *(f"{q} {duration(row[f'processing_{q}'])}" for q in _QUANTILES),
            f"visibility timeout {duration(row['visibility_timeout'])}",
        ]
        if suggested and suggested != row["visibility_timeout"]:
            lines.append(f"recommended timeout {duration(suggested)}")
        return "\n".join(lines)

    def bullet(row: Row) -> dict[str, Any]:
        values = {q: max(row[f"processing_{q}"], marks.SHORTEST) for q in _QUANTILES}
        timeout, suggested = row["visibility_timeout"] or None, row["suggested_timeout"]
        if suggested and suggested != timeout:
            values["suggested"] = suggested
        return {"queue": row["name"], "text": text(row), "timeout": timeout} | values

    panels = {
        name: [Panel(name, "processing time", [bullet(rows[name][0])])]
        for name in names
        if rows.get(name) and rows[name][0]["processing_p50"] is not None
    }
    title, measures = (
        "Processing time and visibility timeout",
        ("p50", "p99", "timeout", "suggested"),
    )
    return Chart(
        "visibility-plots", title, _BULLETS, marks.bullets(), panels, measures, single=True,
        most=2 * _QUEUES,
    )  # fmt: skip
