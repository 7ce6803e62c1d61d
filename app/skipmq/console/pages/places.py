"""The accounts and regions that have queues, for the menu in the head of each page."""

import flask
from flask.typing import ResponseReturnValue

from skipmq.console.visit import current

_LIMIT = 100


def add(pages: flask.Blueprint) -> None:
    """Add the view."""
    pages.add_url_rule("/places", "places", _places)


def _places() -> ResponseReturnValue:
    places = current().places(_LIMIT)
    return flask.render_template("places.html", places=places, has_more=len(places) == _LIMIT)
