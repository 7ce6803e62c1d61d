"""The page of dead-letter queues and their sources."""

import flask
from flask.typing import ResponseReturnValue

from skipmq.console import site
from skipmq.console.visit import current, requested_page

PAGE = 25


def add(pages: flask.Blueprint) -> None:
    """Add the view."""
    pages.add_url_rule("/dead-letters", "dead_letters", _dead_letters)


def _dead_letters() -> ResponseReturnValue:
    search = flask.request.args.get("q", "").strip()
    page = requested_page(PAGE)
    result, error = current().read(
        "ListDeadLetterQueues", Search=search, Offset=page.offset, MaxResults=PAGE
    )
    matches = result.get("Matches", 0)
    if page.offset and not error and page.offset >= matches:
        return site.see("dead_letters", q=search or None)
    return flask.render_template(
        "dead_letters.html",
        error=error,
        groups=result.get("DeadLetterQueues", []),
        redelivering=result.get("Redelivering", []) if page.offset == 0 else [],
        search=search,
        **page.shown(matches),
        # Screen readers must not announce the number of matches on each refresh.
        is_poll=flask.request.headers.get("HX-Trigger") == "dead-letters",
    )
