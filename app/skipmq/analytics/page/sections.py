"""The sections of the page: what each shows, and the columns of its table."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from markupsafe import Markup, escape

from skipmq.analytics.page import bullets, charts, comparison, numbers
from skipmq.analytics.page.charts import Chart
from skipmq.analytics.page.facts import Facts
from skipmq.analytics.page.findings import Row, Tables
from skipmq.analytics.page.numbers import count, duration, percent, size


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; `share` gives the length of a bar in the cell, from 0 to 1."""

    title: str
    text: Callable[[Row], Any]
    share: Callable[[Row], float | None] | None = None
    kind: Literal["number", "text", "short"] = "number"


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page; `empty` says in words that there is nothing, and why that may be."""

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
    """Return rows of a table as HTML."""
    found = (f"<tr>{''.join(_cell(column, row) for column in columns)}</tr>" for row in rows)
    return Markup("".join(found))  # noqa: S704 - the texts of cells are escaped.


def _cell(column: Column, row: Row) -> str:
    text: str = escape(column.text(row))
    if column.share:
        bar = f'<span class="bar"><u style="width:{column.share(row) or 0:.1%}"></u></span>'
        text = f'<span class="share">{bar}<span>{text}</span></span>'
    return f'<td class="{column.kind}">{text}</td>'


def _text(title: str, column: str, kind: Literal["text", "short"] = "text") -> Column:
    return Column(title, lambda row: row[column] or "", kind=kind)


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


def sections(facts: Facts, tables: Tables, names: Sequence[str]) -> list[Section]:
    """Return the sections; `names` are the queues, the busiest first: tables are in this order."""
    places = {name: place for place, name in enumerate(names)}
    ordered = {
        report: sorted(rows, key=lambda row: places[row["name"]]) for report, rows in tables.items()
    }
    made = (_comparison, _latency, _traffic, _redelivery, _dead_letters, _groups, _backlog)
    return [section(facts, ordered, names) for section in (*made, _consumers)]


def _comparison(facts: Facts, tables: Tables, _: Sequence[str]) -> Section:
    rows = tables["comparison"]
    known = not facts.uncompared and comparison.known(facts.period, facts.known_since, rows)
    about = facts.uncompared or comparison.about(facts.period, facts.known_since, rows)
    if not facts.live:
        about += " This source has only settled messages: what arrived and waits still is missing."
    columns = [
        _NAME,
        *(Column(m.title, partial(comparison.cell, m, known=known)) for m in comparison.MEASURES),
    ]
    return Section(
        "comparison", "Compared with the time before", about, "No message arrived or was settled.",
        (), columns, rows, ("comparison",), is_open=True,
    )  # fmt: skip


def _latency(facts: Facts, tables: Tables, names: Sequence[str]) -> Section:
    columns = [
        *(_NAME, _number("settled", "settled"), _number("deleted", "deleted")),
        *_percentiles("wait", "send_to_receive"),
        *_percentiles("work", "receive_to_delete"),
        *_percentiles("in queue", "send_to_delete"),
    ]
    return Section(
        "latency",
        "Latency",
        "From the send to the first receive (wait), from there to the delete (work, with its"
        " redeliveries), and both together (time in queue), by the time of settlement.",
        "Nothing was settled.",
        [charts.latency(charts.by_name(tables["latency"]), names, facts.period)],
        columns, tables["summary"], ("summary", "latency"), is_open=True,
    )  # fmt: skip


def _traffic(facts: Facts, tables: Tables, names: Sequence[str]) -> Section:
    columns = [
        *(_NAME, _BEGIN, _number("arrived", "arrived"), _number("volume", "arrived_bytes", size)),
        _number("body p50", "body_p50", size), _number("p95", "body_p95", size),
        _number("largest", "body_max", size), _number("deleted", "deleted"),
        _number("dead-lettered", "dead_lettered"), _number("expired", "expired"),
        _number("purged", "purged"), _number("redriven", "redriven"),
    ]  # fmt: skip
    about = "What arrived against what was settled in the same time, and how."
    if any(row["arrived"] for row in tables["traffic"]):
        about += " A message arrives in its dead-letter queue when it is moved there."
    return Section(
        "traffic", "Traffic", about, "No message arrived and none was settled.",
        [charts.traffic(charts.by_name(tables["traffic"]), names, facts.period)],
        columns, tables["traffic"], ("traffic",),
    )  # fmt: skip


def _redelivery(_: Facts, tables: Tables, names: Sequence[str]) -> Section:
    again = {row["name"]: row for row in tables["redelivery"]}
    rows = [{**again.get(row["name"], {}), **row} for row in tables["visibility"]]
    columns = [
        _NAME,
        _number("received", "received"),
        _number("redelivered", "redelivery_rate", percent, lambda row: row["redelivery_rate"]),
        _number("most receives", "receives_max"),
        *_percentiles("work", "processing"),
        _number("visibility timeout", "visibility_timeout", duration),
        _number("timed out", "timed_out"),
        _number("given back", "given_back"),
        _text("advice", "advice", "short"),
        _number("timeout advised", "suggested_timeout", duration),
    ]
    return Section(
        "redelivery",
        "Redelivery",
        "Work is what messages took that were received once. Those received again had either"
        " timed out, so that another consumer did the same work, or were given back before."
        " The command skipmq analytics advise --apply sets the timeouts advised.",
        "No message was received.",
        [
            bullets.visibility(charts.by_name(tables["visibility"]), names),
            charts.receive_counts(charts.by_name(tables["receive_counts"]), names),
        ],
        columns, rows, ("redelivery", "receive_counts", "visibility"), is_open=True,
    )  # fmt: skip


def _dead_letters(_: Facts, tables: Tables, __: Sequence[str]) -> Section:
    columns = [
        *(_NAME, _text("what", "kind", "short"), _text("cause", "cause")),
        _number("dead letters", "dead_lettered"),
        _number("of", "settled"),
        _number("rate", "rate", percent, lambda row: row["rate"]),
        Column("as likely", lambda row: f"{numbers.figures(row['lift'])} \u00d7"),
        Column("last (UTC)", lambda row: numbers.moment(row["last_at"]), kind="short"),
        _text("example", "example", "short"),
    ]
    return Section(
        "dead-letters",
        "Dead letters",
        "What dead letters have in common: the more of them a cause explains, the higher it"
        " stands. Bodies and attributes are compared where a queue's HistoryMode is full.",
        "No message was dead-lettered.",
        (), columns, tables["dead_letters"], ("dead_letters",), is_open=True,
    )  # fmt: skip


def _groups(_: Facts, tables: Tables, __: Sequence[str]) -> Section:
    columns = [
        *(_NAME, _text("group", "group_id")),
        _number("in flight", "in_flight_share", percent, lambda row: row["in_flight_share"]),
        _number("an even share", "even_share", percent),
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
        "Message groups of FIFO queues and tenants of standard ones, by the time that their"
        " messages were in flight. Noisy is who holds more than a tenth of it.",
        "No message had a group.",
        (), columns, tables["groups"], ("groups",), is_open=True,
    )  # fmt: skip


def _backlog(facts: Facts, tables: Tables, names: Sequence[str]) -> Section:
    rows = charts.by_name(tables["backlog"])
    most = {name: max(row["waiting"] for row in found) for name, found in rows.items()}
    waits = sorted((n for n in names if most.get(n)), key=lambda name: -most[name])
    columns = [
        *(_NAME, _number("waiting", "waiting")),
        _number("oldest", "oldest_age_seconds", duration),
        Column("arrives", lambda row: numbers.rate(row["in_per_second"])),
        Column("is settled", lambda row: numbers.rate(row["out_per_second"])),
        Column("empty in", _drained),
    ]
    about = "Messages not yet settled, whether they wait, are delayed or are in flight."
    about += (
        " The dashed line goes on at the rates of the last minutes."
        if facts.live
        else " This source has only settled messages: what waits still is missing near the end."
    )
    forecasts, period = tables["forecast"] if facts.live else (), facts.period
    return Section(
        "backlog", "Backlog", about, "No message waited.",
        [
            charts.waiting(rows, charts.by_name(forecasts), waits, period, live=facts.live),
            charts.ages(rows, waits, period),
        ],
        columns, forecasts, ("backlog", "forecast"), is_open=True,
    )  # fmt: skip


def _drained(row: Row) -> str:
    if row["drains_in_seconds"] is not None:
        return duration(row["drains_in_seconds"]) if row["waiting"] else "empty"
    if not row["in_per_second"]:
        return "nothing moves"
    return "grows" if row["in_per_second"] > row["out_per_second"] else "as much comes as goes"


def _consumers(facts: Facts, tables: Tables, names: Sequence[str]) -> Section:
    columns = [
        *(_NAME, _BEGIN, _text("node", "node"), _number("deleted", "deleted")),
        Column("rate", lambda row: numbers.rate(row["per_second"])),
        _number("volume", "bytes", size),
        *_percentiles("work", "processing"),
    ]
    return Section(
        "consumers", "Consumers", "What was deleted through each node.", "Nothing was deleted.",
        [charts.consumers(charts.by_name(tables["consumers"]), names, facts.period)],
        columns, tables["consumers"], ("consumers",),
    )  # fmt: skip
