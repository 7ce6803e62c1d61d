"""The home page: totals, the state of the database, and what needs attention."""

import flask
from flask.typing import ResponseReturnValue

from skipmq.console.visit import current

# The number of troubles on the page; the others are counted.
_SHOWN = 12
_LINKS = ("http://", "https://")


def add(pages: flask.Blueprint) -> None:
    """Add the view."""
    pages.add_url_rule("/", "overview", _overview)


def _overview() -> ResponseReturnValue:
    overview, error = current().read("GetOverview", MaxResults=_SHOWN)
    troubles = overview.get("Troubles", [])
    return flask.render_template(
        "overview.html",
        error=error,
        troubles=troubles,
        more=overview.get("Found", 0) - len(troubles),
        totals=overview.get("Totals"),
        database=overview.get("Database"),
        nodes=overview.get("Nodes"),
        is_linked=is_linked(),
    )


def is_linked() -> bool:
    """Return whether the runbook has an address to which pages can link."""
    return current().broker.node.settings.runbook_url.startswith(_LINKS)
