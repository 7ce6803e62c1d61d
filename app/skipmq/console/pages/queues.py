"""The page that lists queues."""

import re

import flask
from flask.typing import ResponseReturnValue

from skipmq import errors
from skipmq.console import site
from skipmq.console.visit import current

PAGE = 50
_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}|[A-Za-z0-9_-]{1,75}\.fifo")
_ORDERS = ("name", "messages", "rate", "dead-lettered")
# The length of the sparklines.
_MINUTES = 60
_MAXIMUM_PAGE = 100_000


def add(pages: flask.Blueprint) -> None:
    """Add the views."""
    pages.add_url_rule("/queues", "queues", _queues)
    pages.add_url_rule("/open", "open", _open)


def _queues() -> ResponseReturnValue:
    arguments = flask.request.args
    search = arguments.get("q", "").strip()
    order = arguments.get("sort", "name")
    order = order if order in _ORDERS else "name"
    descending = arguments.get("dir", "asc") == "desc"
    page = min(max(arguments.get("page", 1, int), 1), _MAXIMUM_PAGE)
    result, error = current().attempt(
        "ListQueueStatistics",
        Search=search,
        Order=order,
        Descending=descending,
        Offset=(page - 1) * PAGE,
        MaxResults=PAGE,
        Minutes=_MINUTES,
    )
    if error is not None and not isinstance(error, errors.AccessDenied):
        raise error
    if not result.get("Queues") and page > 1:
        # Queues were deleted; the number of matches is only known on a page with rows.
        return site.see("queues", q=search or None, sort=order, dir="desc" if descending else None)
    return flask.render_template(
        "queues.html",
        error=error,
        queues=result.get("Queues", []),
        clock=result.get("Clock"),
        matches=result.get("Matches", 0),
        search=search,
        order=order,
        descending=descending,
        page=page,
        pages=-(-result.get("Matches", 0) // PAGE),
        # Screen readers must not announce the number of matches on each refresh.
        is_poll=flask.request.headers.get("HX-Trigger") == "queues",
    )


def _open() -> ResponseReturnValue:
    name = flask.request.args.get("name", "").strip()
    if not _NAME.fullmatch(name):
        raise errors.QueueDoesNotExist
    return site.see("messages", name=name)
