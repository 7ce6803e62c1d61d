"""The page of dead-letter queues and their sources."""

import flask
from flask.typing import ResponseReturnValue

from skipmq.console import site
from skipmq.console.visit import current

PAGE = 25
_MAXIMUM_PAGE = 100_000


def add(pages: flask.Blueprint) -> None:
    """Add the view."""
    pages.add_url_rule("/dead-letters", "dead_letters", _dead_letters)


def _dead_letters() -> ResponseReturnValue:
    search = flask.request.args.get("q", "").strip()
    page = min(max(flask.request.args.get("page", 1, int), 1), _MAXIMUM_PAGE)
    result, error = current().read(
        "ListDeadLetterQueues", Search=search, Offset=(page - 1) * PAGE, MaxResults=PAGE
    )
    matches = result.get("Matches", 0)
    if page > 1 and not error and (page - 1) * PAGE >= matches:
        return site.see("dead_letters", q=search or None)
    return flask.render_template(
        "dead_letters.html",
        error=error,
        groups=result.get("DeadLetterQueues", []),
        redelivering=result.get("Redelivering", []) if page == 1 else [],
        matches=matches,
        search=search,
        page=page,
        pages=-(-matches // PAGE),
        # Screen readers must not announce the number of matches on each refresh.
        is_poll=flask.request.headers.get("HX-Trigger") == "dead-letters",
    )
