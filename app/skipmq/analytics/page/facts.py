"""What a page is made of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from skipmq.analytics.page.findings import Row, Tables
from skipmq.analytics.period import Period
from skipmq.analytics.reports.measures import QUEUE


@dataclass(frozen=True, slots=True)
class Facts:
    """The rows of each report by its name, and where they come from.

    `live` says whether messages that wait still were read too, `known_since` when the history of
    the source begins (None: that is not known), `uncompared` why the period before was not read.
    """

    source: str
    period: Period
    tables: Mapping[str, Sequence[Row]]
    live: bool
    known_since: datetime | None = None
    uncompared: str = ""


def named(tables: Tables) -> dict[str, list[dict[str, Any]]]:
    """Give each row the `name` of its queue, with account and region where those differ."""
    places = {(row["account"], row["region"]) for rows in tables.values() for row in rows}
    alone = len(places) <= 1

    def name(row: Row) -> str:
        return row["queue"] if alone else "/".join(row[column] for column in QUEUE)

    return {report: [{**row, "name": name(row)} for row in rows] for report, rows in tables.items()}


def busiest(tables: Tables) -> list[str]:
    """Return the names of all queues, those first of which most was settled."""
    settled = {row["name"]: row["settled"] for row in tables["summary"]}
    there = {row["name"] for rows in tables.values() for row in rows}
    return sorted(there, key=lambda name: (-settled.get(name, 0), name))
