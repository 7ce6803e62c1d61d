"""The page, from the rows of the reports."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import skipmq
from skipmq.analytics.page import charts, numbers
from skipmq.analytics.page.findings import Finding, Row, Tables, findings
from skipmq.analytics.page.numbers import count, duration, percent, size
from skipmq.analytics.period import Period
from skipmq.analytics.reports.measures import QUEUE

# Rows of a table that are shown; the files next to the page have all.
_MOST_ROWS = 200


@dataclass(frozen=True, slots=True)
class Facts:
    """What a page is made of: the rows of each report by its name, and where they come from.

    `live` says whether messages that wait still were read too.
    """

    source: str
    period: Period
    tables: Mapping[str, Sequence[Row]]
    live: bool


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; `share` gives the length of a bar in the cell, from 0 to 1."""

    title: str
    text: Any
    share: Any = None
    kind: Literal["number", "text", "time"] = "number"


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page; `empty` says in words that there is nothing, and why that may be."""

    id: str
    title: str
    about: str
    empty: str
    plots: Sequence[Markup]
    columns: Sequence[Column]
    rows: Sequence[Row]
    files: Sequence[str]
    is_open: bool = False


def render(facts: Facts) -> str:
    """Return the page as HTML."""
    tables = _named(facts.tables)
    busiest = [row["name"] for row in sorted(tables["summary"], key=lambda row: -row["settled"])]
    environment = Environment(
        loader=PackageLoader("skipmq.analytics", "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"moment": numbers.moment, "count": count}
    return environment.get_template("report.html").render(
        facts=facts,
        version=skipmq.__version__,
        findings=findings(tables, live=facts.live),
        tiles=_tiles(tables, live=facts.live),
        sections=_sections(facts, tables, busiest),
        most_rows=_MOST_ROWS,
        queues=len(busiest),
        drawn=charts.MOST_QUEUES,
    )


def findings_of(facts: Facts) -> list[Finding]:
    """Return what the page says in words, the worst first."""
    return findings(_named(facts.tables), live=facts.live)


def _named(tables: Tables) -> dict[str, list[dict[str, Any]]]:
    """Give each row the `name` of its queue, with account and region where those differ."""
    places = {(row["account"], row["region"]) for rows in tables.values() for row in rows}
    alone = len(places) <= 1

    def name(row: Row) -> str:
        return row["queue"] if alone else "/".join(row[column] for column in QUEUE)

    return {report: [{**row, "name": name(row)} for row in rows] for report, rows in tables.items()}


def _tiles(tables: Tables, *, live: bool) -> list[tuple[str, str, str]]:
    """Return the figures at the top: what, how much, of what."""
    rows = tables["summary"]
    settled = sum(row["settled"] for row in rows)
    received = sum(row["received"] for row in tables["redelivery"])
    again = sum(row["redelivered"] for row in tables["redelivery"])
    dead = sum(row["dead_lettered"] for row in rows)
    slowest = max(
        (row for row in rows if row["send_to_delete_p99"] is not None),
        key=lambda row: row["send_to_delete_p99"],
        default=None,
    )
    tiles = [
        (
            "settled",
            count(settled),
            f"messages of {len(rows)} queue{'' if len(rows) == 1 else 's'}",
        ),
        ("volume", size(sum(row["bytes"] for row in rows)), "bodies and attributes"),
        ("redelivered", percent(again / received if received else 0), f"{count(again)} messages"),
        ("dead letters", count(dead), percent(dead / settled if settled else 0)),
    ]
    if slowest:
        detail = f"send to delete, {slowest['name']}"
        tiles.append(("slowest p99", duration(slowest["send_to_delete_p99"]), detail))
    if live:
        waiting = sum(row["waiting"] for row in tables["forecast"])
        oldest = max((row["oldest_age_seconds"] for row in tables["forecast"]), default=0)
        tiles.append(("waiting", count(waiting), f"oldest {duration(oldest)}" if waiting else ""))
    return tiles


def _plots(*drawn: str) -> list[Markup]:
    return [Markup(plot) for plot in drawn if plot]  # noqa: S704 - matplotlib escapes its texts.


def _text(title: str, column: str) -> Column:
    return Column(title, lambda row: row[column] or "", kind="text")


def _number(title: str, column: str, form: Any = count, share: Any = None) -> Column:
    return Column(title, lambda row: form(row[column]), share)


def _percentiles(title: str, column: str) -> list[Column]:
    return [_number(f"{title} {q}", f"{column}_{q}", duration) for q in ("p50", "p95", "p99")]


_NAME = _text("queue", "name")
_BEGIN = Column("from (UTC)", lambda row: numbers.moment(row["since"]), kind="time")


def _sections(facts: Facts, tables: Tables, busiest: Sequence[str]) -> list[Section]:
    drawn = busiest[: charts.MOST_QUEUES]
    period = facts.period
    return [
        _latency(tables, charts.latency(tables["latency"], drawn, period)),
        _traffic(tables, charts.traffic(tables["traffic"], drawn, period)),
        _redelivery(
            tables,
            charts.visibility(tables["visibility"], busiest[: 2 * charts.MOST_QUEUES]),
            charts.receive_counts(tables["receive_counts"], drawn),
        ),
        _dead_letters(tables),
        _groups(tables),
        _backlog(facts, tables, busiest),
        _consumers(tables, charts.consumers(tables["consumers"], drawn, period)),
    ]


def _latency(tables: Tables, *plots: str) -> Section:
    columns = [
        *(_NAME, _number("settled", "settled"), _number("deleted", "deleted")),
        *_percentiles("wait", "send_to_receive"),
        *_percentiles("work", "receive_to_delete"),
        *_percentiles("all", "send_to_delete"),
    ]
    return Section(
        "latency",
        "How long messages take",
        "From the send to the first receive (wait), from there to the delete (work, with its"
        " redeliveries), and both together, by the time of settlement.",
        "Nothing was settled.",
        _plots(*plots), columns, tables["summary"], ("summary", "latency"), is_open=True,
    )  # fmt: skip


def _traffic(tables: Tables, *plots: str) -> Section:
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
        "traffic", "What comes and goes", about, "Nothing came and nothing was settled.",
        _plots(*plots), columns, tables["traffic"], ("traffic",),
    )  # fmt: skip


def _redelivery(tables: Tables, *plots: str) -> Section:
    again = {row["name"]: row for row in tables["redelivery"]}
    rows = [{**again.get(row["name"], {}), **row} for row in tables["visibility"]]
    columns = [
        _NAME,
        _number("received", "received"),
        _number("redelivered", "redelivery_rate", percent, lambda row: row["redelivery_rate"]),
        _number("most receives", "receives_max"),
        *_percentiles("work", "processing"),
        _number("timeout", "visibility_timeout", duration),
        _number("timed out", "timed_out"),
        _number("given back", "given_back"),
        _text("advice", "advice"),
        _number("timeout advised", "suggested_timeout", duration),
    ]
    return Section(
        "redelivery",
        "What comes again",
        "Work is what messages took that were received once. Those received again had either"
        " timed out, so that somebody else did the same work, or were given back before.",
        "Nothing was received.",
        _plots(*plots), columns, rows, ("redelivery", "receive_counts", "visibility"), is_open=True,
    )  # fmt: skip


def _dead_letters(tables: Tables) -> Section:
    columns = [
        *(_NAME, _text("what", "kind"), _text("cause", "cause")),
        _number("dead letters", "dead_lettered"),
        _number("of", "settled"),
        _number("rate", "rate", percent, lambda row: row["rate"]),
        Column("as likely", lambda row: f"{row['lift']:.2g} \u00d7"),
        Column("last (UTC)", lambda row: numbers.moment(row["last_at"]), kind="time"),
        _text("example", "example"),
    ]
    return Section(
        "dead-letters",
        "Why messages die",
        "What goes with being dead-lettered: the more a cause explains, the higher it stands."
        " Bodies and attributes are compared where a queue's HistoryMode is full.",
        "No message was dead-lettered.",
        (), columns, tables["dead_letters"], ("dead_letters",), is_open=True,
    )  # fmt: skip


def _groups(tables: Tables) -> Section:
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
        "Who takes the room",
        "Groups of FIFO queues and tenants of standard ones, by the time that their messages were"
        " in flight. Noisy is who holds more than a tenth of it.",
        "No message had a group.",
        (), columns, tables["groups"], ("groups",), is_open=True,
    )  # fmt: skip


def _backlog(facts: Facts, tables: Tables, busiest: Sequence[str]) -> Section:
    most: dict[str, int] = dict.fromkeys(busiest, 0)
    for row in tables["backlog"]:
        most[row["name"]] = max(most.get(row["name"], 0), row["waiting"])
    names = sorted(most, key=lambda name: -most[name])[: charts.MOST_QUEUES]
    columns = [
        *(_NAME, _number("waiting", "waiting")),
        _number("oldest", "oldest_age_seconds", duration),
        Column("comes", lambda row: numbers.rate(row["in_per_second"])),
        Column("goes", lambda row: numbers.rate(row["out_per_second"])),
        Column("empty in", _drained),
    ]
    about = "Messages not yet settled, whether they wait, are delayed or are in flight."
    about += (
        " The dashed line goes on at the rates of the last minutes."
        if facts.live
        else " This source has only settled messages: what waits still is missing near the end."
    )
    plot = charts.backlog(
        tables["backlog"], tables["forecast"], names, facts.period, live=facts.live
    )
    rows = tables["forecast"] if facts.live else ()
    return Section(
        "backlog", "What waits", about, "Nothing waited.",
        _plots(plot), columns, rows, ("backlog", "forecast"), is_open=True,
    )  # fmt: skip


def _drained(row: Row) -> str:
    if row["drains_in_seconds"] is not None:
        return duration(row["drains_in_seconds"]) if row["waiting"] else "empty"
    if not row["in_per_second"]:
        return "nothing moves"
    return "grows" if row["in_per_second"] > row["out_per_second"] else "as much comes as goes"


def _consumers(tables: Tables, *plots: str) -> Section:
    columns = [
        *(_NAME, _BEGIN, _text("node", "node"), _number("deleted", "deleted")),
        Column("rate", lambda row: numbers.rate(row["per_second"])),
        _number("volume", "bytes", size),
        *_percentiles("work", "processing"),
    ]
    return Section(
        "consumers", "Who does the work", "What was deleted through each node.",
        "Nothing was deleted.", _plots(*plots), columns, tables["consumers"], ("consumers",),
    )  # fmt: skip
