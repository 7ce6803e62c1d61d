"""The list of queues."""

import re
from typing import Any

import flask
from flask.typing import ResponseReturnValue

from skipmq import errors
from skipmq.console import site
from skipmq.console.visit import current

PAGE = 50
_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}|[A-Za-z0-9_-]{1,75}\.fifo")
_ORDERS = ("name", "messages", "rate", "dead-lettered")
# Of the curves in the list.
_MINUTES = 60
# As far as pages are numbered.
_PAGES_MOST = 100_000


def add(pages: flask.Blueprint) -> None:
    """Add the views."""
    pages.add_url_rule("/queues", "queues", _queues)
    pages.add_url_rule("/open", "open", _open)


def _queues() -> ResponseReturnValue:
    given = flask.request.args
    search = given.get("q", "").strip()
    order = given.get("sort", "name")
    order = order if order in _ORDERS else "name"
    descending = given.get("dir", "asc") == "desc"
    page = min(max(given.get("page", 1, int), 1), _PAGES_MOST)
    asked: dict[str, Any] = {"Search": search, "Order": order, "Descending": descending}
    found, error = current().attempt(
        "ListQueueStatistics",
        **asked,
        Offset=(page - 1) * PAGE,
        MaxResults=PAGE,
        Minutes=_MINUTES,
    )
    if error is not None and not isinstance(error, errors.AccessDenied):
        raise error
    if not found.get("Queues") and page > 1:
        # Some have gone since; the number of those that are left comes with a row.
        return site.see("queues", q=search or None, sort=order, dir="desc" if descending else None)
    return flask.render_template(
        "queues.html",
        error=error,
        queues=found.get("Queues", []),
        clock=found.get("Clock"),
        matches=found.get("Matches", 0),
        search=search,
        order=order,
        descending=descending,
        page=page,
        pages=-(-found.get("Matches", 0) // PAGE),
        # The list is asked for again by itself; nobody wants to hear its number each time.
        is_poll=flask.request.headers.get("HX-Trigger") == "queues",
    )


def _open() -> ResponseReturnValue:
    name = flask.request.args.get("name", "").strip()
    if not _NAME.fullmatch(name):
        raise errors.QueueDoesNotExist
    return site.see("messages", name=name)
