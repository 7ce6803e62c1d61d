"""The data of a report page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from skipmq.analytics.reports import QUEUE
from skipmq.analytics.reports.page.findings import Finding, Row, Tables
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


def named(tables: Tables) -> dict[str, list[dict[str, Any]]]:
    """Add the `name` of its queue to each row, with account and region if there are several."""
    owners = {(row["account"], row["region"]) for rows in tables.values() for row in rows}
    is_single = len(owners) <= 1

    def name(row: Row) -> str:
        return row["queue"] if is_single else "/".join(row[column] for column in QUEUE)

    return {report: [{**row, "name": name(row)} for row in rows] for report, rows in tables.items()}


def ordered(tables: Tables, found: Sequence[Finding]) -> list[str]:
    """Return the names of all queues: those with bad findings first, then the busiest."""
    settled = {row["name"]: row["settled"] for row in tables["summary"]}
    bad = {finding.queue for finding in found if finding.weight == "bad"}
    names = {row["name"] for rows in tables.values() for row in rows}
    return sorted(names, key=lambda name: (name not in bad, -settled.get(name, 0), name))
