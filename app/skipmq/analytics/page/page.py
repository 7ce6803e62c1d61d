"""The page, from the rows of the reports."""

import gzip
import json
from base64 import b64encode
from collections.abc import Iterator, Sequence
from functools import cache
from hashlib import sha256
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import skipmq
from skipmq.analytics.page import charts, findings, numbers, scales
from skipmq.analytics.page.facts import Facts, busiest, named
from skipmq.analytics.page.findings import Finding, Tables
from skipmq.analytics.page.numbers import count, duration, percent, size
from skipmq.analytics.page.sections import Section, body, sections

# Rows of a table that are shown of all queues, and of each; the files next to the page have all.
_MOST_ROWS, _MOST_OF_ONE = 60, 50
# Of more queues the tables by step, which are closed at first, would be a fifth of the page.
_MANY_QUEUES = 100


def render(facts: Facts) -> str:
    """Return the page as HTML.

    What is shown of all queues is there as it is, and what is shown of each when it is chosen
    lies compressed beside it.
    """
    tables = named(facts.tables)
    names = busiest(tables)
    said = findings.findings(tables, live=facts.live)
    made = sections(facts, tables, names)
    environment = _environment()
    script = _text("report.js").replace("PLACES", json.dumps(scales.PLACES))
    style = _text("report.css")
    return environment.get_template("report.html").render(
        facts=facts,
        version=skipmq.__version__,
        said=findings.folded(said),
        tiles=_tiles(tables, live=facts.live),
        sections=made,
        settled=bool(tables["summary"]),
        most_rows=_MOST_ROWS,
        most_of_one=_MOST_OF_ONE,
        body=body,
        queues=names,
        packed=list(_packed(environment, names, said, made)),
        script=Markup(script),  # noqa: S704 - our own.
        style=Markup(style),  # noqa: S704 - our own.
        digest=b64encode(sha256(script.encode()).digest()).decode(),
    )


def findings_of(facts: Facts) -> list[Finding]:
    """Return what the page says in words, the worst first."""
    return findings.folded(findings.findings(named(facts.tables), live=facts.live))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("skipmq.analytics", "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"moment": numbers.moment, "count": count}
    return environment


def _text(file: str) -> str:
    return resources.files(__package__).joinpath(file).read_text(encoding="utf-8")


def _packed(
    environment: Environment,
    names: Sequence[str],
    said: Sequence[Finding],
    made: Sequence[Section],
) -> Iterator[tuple[str, str]]:
    """Give each queue's name, and what is shown of it by the part of the page, compressed."""
    parts: Any = environment.get_template("findings.html").module
    rows = {section.id: charts.by_name(section.rows) for section in made}
    drawn = {chart.id: set(chart.names) for section in made for chart in section.charts}
    for name in names:
        shown = {"findings": parts.findings([f for f in said if f.queue == name])}
        for section in made:
            if section.is_open or len(names) <= _MANY_QUEUES:
                found = rows[section.id].get(name, ())[:_MOST_OF_ONE]
                shown[f"{section.id}-rows"] = body(section.columns, found)
            for chart in section.charts:
                if name in drawn[chart.id]:
                    shown[chart.id] = chart.draw([name])
        text = json.dumps(shown, ensure_ascii=False, separators=(",", ":"))
        yield name, b64encode(gzip.compress(text.encode(), mtime=0)).decode()


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
