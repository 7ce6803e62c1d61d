"""The sections of the page with their charts and tables."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Literal

from markupsafe import Markup, escape

from skipmq.analytics.reports.page import charts, comparison, numbers
from skipmq.analytics.reports.page.charts import Chart
from skipmq.analytics.reports.page.findings import Row, Tables
from skipmq.analytics.reports.page.numbers import count, duration, percent, size
from skipmq.analytics.reports.period import Period


@dataclass(frozen=True, slots=True)
class ReportData:
    """The rows of each report by its name, and their source.

    `live` is whether the source has live messages, `history_since` the beginning of its history
    (None: unknown), `uncompared` the reason if the previous period was not read.
    """

    source: str
    period: Period
    tables: Mapping[str, Sequence[Row]]
    live: bool
    history_since: datetime | None = None
    uncompared: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; `share` returns the length of a bar in the cell, from 0 to 1."""

    title: str
    text: Callable[[Row], Any]
    share: Callable[[Row], float | None] | None = None
    kind: Literal["number", "text", "short"] = "number"


@dataclass(frozen=True, slots=True)
class Section:
    """A section of the page; `empty` is its text without data."""

    id: str
    title: str
    about: str
    empty: str
    charts: Sequence[Chart]
    columns: Sequence[Column]
    rows: Sequence[Row]
    files: Sequence[str]
    is_open: bool = False


def body(columns: Sequence[Column], rows: Sequence[Row]) -> Markup:
    """Return table rows as HTML."""
    html = (f"<tr>{''.join(_cell(column, row) for column in columns)}</tr>" for row in rows)
    return Markup("".join(html))  # noqa: S704 - the texts of cells are escaped.


def _cell(column: Column, row: Row) -> str:
    text: str = escape(column.text(row))
    if column.share:
        bar = f'<span class="bar"><u style="width:{column.share(row) or 0:.1%}"></u></span>'
        text = f'<span class="share">{bar}<span>{text}</span></span>'
    return f'<td class="{column.kind}">{text}</td>'


def _text(title: str, column: str, kind: Literal["text", "short"] = "text") -> Column:
    return Column(title, lambda row: numbers.line(row[column] or ""), kind=kind)


def _number(
    title: str,
    column: str,
    form: Callable[[Any], str] = count,
    share: Callable[[Row], float | None] | None = None,
) -> Column:
    return Column(title, lambda row: form(row[column]), share)


def _percentiles(title: str, column: str) -> list[Column]:
    return [_number(f"{title} {q}", f"{column}_{q}", duration) for q in ("p50", "p95", "p99")]


_NAME = _text("queue", "name")
_BEGIN = Column("from (UTC)", lambda row: numbers.moment(row["since"]), kind="short")


def sections(data: ReportData, tables: Tables, names: Sequence[str]) -> list[Section]:
    """Return the sections; their tables are in the order of the queues in `names`."""
    ranks = {name: rank for rank, name in enumerate(names)}
    ordered = {
        report: sorted(rows, key=lambda row: ranks[row["name"]]) for report, rows in tables.items()
    }
    make = (_comparison, _latency, _traffic, _redelivery, _dead_letters, _groups, _backlog)
    return [section(data, ordered, names) for section in (*make, _consumers)]


def _comparison(data: ReportData, tables: Tables, _: Sequence[str]) -> Section:
    rows, since = tables["comparison"], data.history_since
    is_possible = not data.uncompared and comparison.is_possible(data.period, since, rows)
    about = data.uncompared or comparison.about(data.period, since, rows)
    if not data.live:
        about += " This source has settled messages only: arrivals that still wait are missing."
    columns = [
        _NAME,
        *(
            Column(m.title, partial(comparison.cell, m, with_change=is_possible))
            for m in comparison.MEASURES
        ),
    ]
    return Section(
        "comparison", "Comparison with the previous period", about,
        "No message arrived or was settled.", (), columns, rows, ("comparison",), is_open=True,
    )  # fmt: skip


def _latency(data: ReportData, tables: Tables, names: Sequence[str]) -> Section:
    columns = [
        *(_NAME, _number("settled", "settled"), _number("deleted", "deleted")),
        *_percentiles("wait", "send_to_receive"),
        *_percentiles("work", "receive_to_delete"),
        *_percentiles("in queue", "send_to_delete"),
    ]
    return Section(
        "latency",
        "Latency",
        "From the send to the first receive (wait), from there to the delete (work, including"
        " redeliveries), and in total (time in queue), by the time of settlement.",
        "No message was settled.",
        [charts.latency(charts.by_name(tables["latency"]), names, data.period)],
        columns, tables["summary"], ("summary", "latency"), is_open=True,
    )  # fmt: skip


def _traffic(data: ReportData, tables: Tables, names: Sequence[str]) -> Section:
    columns = [
        *(_NAME, _BEGIN, _number("arrived", "arrived"), _number("volume", "arrived_bytes", size)),
        _number("body p50", "body_p50", size), _number("p95", "body_p95", size),
        _number("largest", "body_max", size), _number("deleted", "deleted"),
        _number("dead-lettered", "dead_lettered"), _number("expired", "expired"),
        _number("purged", "purged"), _number("redriven", "redriven"),
    ]  # fmt: skip
    about = "Messages that arrived and messages that were settled, by outcome."
    if any(row["arrived"] for row in tables["traffic"]):
        about += " A message arrives in its dead-letter queue when it is moved there."
    return Section(
        "traffic", "Traffic", about, "No message arrived or was settled.",
        [charts.traffic(charts.by_name(tables["traffic"]), names, data.period)],
        columns, tables["traffic"], ("traffic",),
    )  # fmt: skip


def _redelivery(_: ReportData, tables: Tables, names: Sequence[str]) -> Section:
    receives = {row["name"]: row for row in tables["redelivery"]}
    rows = [{**receives.get(row["name"], {}), **row} for row in tables["visibility"]]
    columns = [
        _NAME,
        _number("received", "received"),
        _number("redelivered", "redelivery_rate", percent, lambda row: row["redelivery_rate"]),
        _number("max receives", "receives_max"),
        *_percentiles("work", "processing"),
        _number("visibility timeout", "visibility_timeout", duration),
        _number("timed out", "timed_out"),
        _number("given back", "given_back"),
        _text("advice", "advice", "short"),
        _number("recommended timeout", "suggested_timeout", duration),
    ]
    return Section(
        "redelivery",
        "Redelivery",
        "Work is the processing time of messages that were received once. A message was received"
        " again either because it timed out, so that it may have been processed twice, or because"
        " a consumer gave it back. skipmq analytics advise --apply sets the recommended timeouts.",
        "No message was received.",
        [
            charts.visibility(charts.by_name(tables["visibility"]), names),
            charts.receive_counts(charts.by_name(tables["receive_counts"]), names),
        ],
        columns, rows, ("redelivery", "receive_counts", "visibility"), is_open=True,
    )  # fmt: skip


def _dead_letters(_: ReportData, tables: Tables, __: Sequence[str]) -> Section:
    columns = [
        *(_NAME, _text("type", "kind", "short"), _text("cause", "cause")),
        _number("dead letters", "dead_lettered"),
        _number("of", "settled"),
        _number("rate", "rate", percent, lambda row: row["rate"]),
        Column("lift", lambda row: f"{numbers.figures(row['lift'])} \u00d7"),
        Column("last (UTC)", lambda row: numbers.moment(row["last_at"]), kind="short"),
        _text("example", "example", "short"),
    ]
    return Section(
        "dead-letters",
        "Dead letters",
        "Common properties of dead letters, sorted by the number of dead letters that they"
        " explain. Bodies and attributes are compared if a queue's HistoryMode is full.",
        "No message was dead-lettered.",
        (), columns, tables["dead_letters"], ("dead_letters",), is_open=True,
    )  # fmt: skip


def _groups(_: ReportData, tables: Tables, __: Sequence[str]) -> Section:
    columns = [
        *(_NAME, _text("group", "group_id")),
        _number("in flight", "in_flight_share", percent, lambda row: row["in_flight_share"]),
        _number("even share", "even_share", percent),
        _number("messages", "messages"),
        _number("volume", "bytes", size),
        *_percentiles("wait", "wait"),
        _number("redelivered", "redelivered"),
        _number("dead letters", "dead_lettered"),
        Column("", lambda row: "noisy" if row["noisy"] else "", kind="text"),
    ]
    return Section(
        "groups",
        "Hot groups and noisy tenants",
        "Message groups of FIFO queues and tenants of standard queues, by the time that their"
        " messages were in flight. A tenant with more than a tenth of it is noisy.",
        "No message had a group.",
        (), columns, tables["groups"], ("groups",), is_open=True,
    )  # fmt: skip


def _backlog(data: ReportData, tables: Tables, names: Sequence[str]) -> Section:
    rows = charts.by_name(tables["backlog"])
    maxima = {name: max(row["waiting"] for row in steps) for name, steps in rows.items()}
    backlogged = sorted((n for n in names if maxima.get(n)), key=lambda name: -maxima[name])
    columns = [
        *(_NAME, _number("waiting", "waiting")),
        _number("oldest", "oldest_age_seconds", duration),
        Column("arrival rate", lambda row: numbers.rate(row["in_per_second"])),
        Column("receive rate", lambda row: numbers.rate(row["out_per_second"])),
        Column("empty in", _drained),
    ]
    about = "Messages that no consumer has received yet: visible or delayed."
    about += (
        " The dashed line extrapolates the rates of the last minutes."
        if data.live
        else " This source has settled messages only: those that still wait are missing."
    )
    forecasts, period = tables["forecast"] if data.live else (), data.period
    return Section(
        "backlog", "Backlog", about, "There was no backlog.",
        [
            charts.waiting(rows, charts.by_name(forecasts), backlogged, period, live=data.live),
            charts.ages(rows, backlogged, period),
        ],
        columns, forecasts, ("backlog", "forecast"), is_open=True,
    )  # fmt: skip


def _drained(row: Row) -> str:
    if row["drains_in_seconds"] is not None:
        return duration(row["drains_in_seconds"]) if row["waiting"] else "empty"
    if not row["in_per_second"]:
        return "no activity"
    return "growing" if row["in_per_second"] > row["out_per_second"] else "steady"


def _consumers(data: ReportData, tables: Tables, names: Sequence[str]) -> Section:
    columns = [
        *(_NAME, _BEGIN, _text("node", "node"), _number("deleted", "deleted")),
        Column("rate", lambda row: numbers.rate(row["per_second"])),
        _number("volume", "bytes", size),
        *_percentiles("work", "processing"),
    ]
    return Section(
        "consumers", "Consumers", "Messages deleted through each node.", "No message was deleted.",
        [charts.consumers(charts.by_name(tables["consumers"]), names, data.period)],
        columns, tables["consumers"], ("consumers",),
    )  # fmt: skip
