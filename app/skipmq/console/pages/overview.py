"""The page of troubles and totals, and the menu of accounts and regions of each page."""

import flask
from flask.typing import ResponseReturnValue

from skipmq.console.visit import current

# The number of troubles on the page; the others are counted.
_SHOWN = 12
_LIMIT = 100


def add(pages: flask.Blueprint) -> None:
    pages.add_url_rule("/", "overview", _overview)
    pages.add_url_rule("/places", "places", _places)


def _overview() -> ResponseReturnValue:
    overview, error = current().read("GetOverview", MaxResults=_SHOWN, Everywhere=True, Folded=True)
    troubles = overview.get("Troubles", [])
    return flask.render_template(
        "overview.html",
        error=error,
        troubles=troubles,
        more=overview.get("Found", 0) - len(troubles),
        totals=overview.get("Totals"),
        database=overview.get("Database"),
        nodes=overview.get("Nodes"),
        unknown=overview.get("Unknown"),
    )


def _places() -> ResponseReturnValue:
    places = current().places(_LIMIT)
    return flask.render_template("places.html", places=places, has_more=len(places) == _LIMIT)
