"""The report page: findings, charts and tables in one HTML file without external resources."""

import gzip
from base64 import b64encode
from collections.abc import Iterator, Sequence
from functools import cache
from hashlib import sha256
from importlib import resources
from typing import Any

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from skipmq import release
from skipmq.analytics.reports import QUEUE
from skipmq.analytics.reports.page import charts, findings, numbers
from skipmq.analytics.reports.page.findings import Finding, Row, Tables
from skipmq.analytics.reports.page.numbers import count, duration, percent, size
from skipmq.analytics.reports.page.sections import ReportData, Section, body, sections

__all__ = ["ReportData", "render", "report_findings"]
# Maximum number of table rows of all queues, and of a queue; the CSV and Parquet files have all.
_MAXIMUM_ROWS, _MAXIMUM_QUEUE_ROWS = 60, 50
# With more queues, tables that are initially closed are not embedded for each queue.
_EMBEDDED_QUEUES = 100


def render(data: ReportData) -> str:
    """Return the page as HTML.

    The content for all queues is plain, that of each queue is embedded compressed.
    """
    tables = _named(data.tables)
    found = findings.findings(tables, data.period, live=data.live)
    names = _ordered(tables, found)
    page_sections = sections(data, tables, names)
    environment = _environment()
    script, library = _text("report.js"), _text("vega.min.js")
    return environment.get_template("report.html").render(
        data=data,
        version=release.VERSION,
        found=findings.folded(found),
        tiles=_tiles(tables, live=data.live),
        sections=page_sections,
        settled=bool(tables["summary"]),
        maximum_rows=_MAXIMUM_ROWS,
        maximum_queue_rows=_MAXIMUM_QUEUE_ROWS,
        body=body,
        queues=names,
        packed=list(_packed(environment, names, found, page_sections)),
        charts=_pack(_charts(page_sections)),
        library=_pack(library),
        script=Markup(script),  # noqa: S704 - not user input.
        style=Markup(_text("report.css")),  # noqa: S704 - not user input.
        digests=[b64encode(sha256(s.encode()).digest()).decode() for s in (script, library)],
    )


def report_findings(data: ReportData) -> list[Finding]:
    """Return the findings of the page, the worst first."""
    return findings.folded(findings.findings(_named(data.tables), data.period, live=data.live))


def _named(tables: Tables) -> dict[str, list[dict[str, Any]]]:
    """Add the `name` of its queue to each row, with account and region if there are several."""
    owners = {(row["account"], row["region"]) for rows in tables.values() for row in rows}
    is_single = len(owners) <= 1

    def name(row: Row) -> str:
        return row["queue"] if is_single else "/".join(row[column] for column in QUEUE)

    return {report: [{**row, "name": name(row)} for row in rows] for report, rows in tables.items()}


def _ordered(tables: Tables, found: Sequence[Finding]) -> list[str]:
    """Return the names of all queues: those with bad findings first, then the busiest."""
    settled = {row["name"]: row["settled"] for row in tables["summary"]}
    bad = {finding.queue for finding in found if finding.weight == "bad"}
    names = {row["name"] for rows in tables.values() for row in rows}
    return sorted(names, key=lambda name: (name not in bad, -settled.get(name, 0), name))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("skipmq.analytics.reports", "page"),
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
    found: Sequence[Finding],
    page_sections: Sequence[Section],
) -> Iterator[tuple[str, str]]:
    """Yield each queue's name and its compressed content: HTML, and the panels of charts."""
    template: Any = environment.get_template("findings.html").module
    rows = {section.id: charts.by_name(section.rows) for section in page_sections}
    for name in names:
        parts: dict[str, Any] = {
            "findings": template.findings([f for f in found if f.queue == name])
        }
        for section in page_sections:
            if section.is_open or len(names) <= _EMBEDDED_QUEUES:
                queue_rows = rows[section.id].get(name, ())[:_MAXIMUM_QUEUE_ROWS]
                parts[f"{section.id}-rows"] = body(section.columns, queue_rows)
            for chart in section.charts:
                parts[chart.id] = chart.panels.get(name, ())
        yield name, _pack(parts)


def _charts(page_sections: Sequence[Section]) -> dict[str, Any]:
    """Return for each chart what the script in the page needs to draw it."""
    return {
        chart.id: {
            "specification": chart.specification,
            "measures": chart.measures,
            "single": chart.single,
            "queues": list(chart.panels)[: chart.most],
        }
        for section in page_sections
        for chart in section.charts
        if chart.panels
    }


def _pack(content: Any) -> str:
    # Markup is a subclass of str.
    text = msgspec.json.encode(content, enc_hook=str)
    return b64encode(gzip.compress(text, mtime=0)).decode()


def _tiles(tables: Tables, *, live: bool) -> list[tuple[str, str, str]]:
    """Return title, figure and detail of the tiles at the top."""
    rows = tables["summary"]
    settled = sum(row["settled"] for row in rows)
    received = sum(row["received"] for row in tables["redelivery"])
    redelivered = sum(row["redelivered"] for row in tables["redelivery"])
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
        (
            "redelivered",
            percent(redelivered / received if received else 0),
            f"{count(redelivered)} messages",
        ),
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
