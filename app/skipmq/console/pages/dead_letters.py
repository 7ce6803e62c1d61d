"""The dead-letter queues and what leads to each."""

import flask
from flask.typing import ResponseReturnValue

from skipmq import errors
from skipmq.console import site
from skipmq.console.visit import current

PAGE = 25
# As far as pages are numbered.
_PAGES_MOST = 100_000


def add(pages: flask.Blueprint) -> None:
    """Add the view."""
    pages.add_url_rule("/dead-letters", "dead_letters", _dead_letters)


def _dead_letters() -> ResponseReturnValue:
    search = flask.request.args.get("q", "").strip()
    page = min(max(flask.request.args.get("page", 1, int), 1), _PAGES_MOST)
    found, error = current().attempt(
        "ListDeadLetterQueues", Search=search, Offset=(page - 1) * PAGE, MaxResults=PAGE
    )
    if error is not None and not isinstance(error, errors.AccessDenied):
        raise error
    matches = found.get("Matches", 0)
    if page > 1 and not error and (page - 1) * PAGE >= matches:
        return site.see("dead_letters", q=search or None)
    return flask.render_template(
        "dead_letters.html",
        error=error,
        groups=found.get("DeadLetterQueues", []),
        redelivering=found.get("Redelivering", []) if page == 1 else [],
        matches=matches,
        search=search,
        page=page,
        pages=-(-matches // PAGE),
        # The list is asked for again by itself; nobody wants to hear its number each time.
        is_poll=flask.request.headers.get("HX-Trigger") == "dead-letters",
    )
