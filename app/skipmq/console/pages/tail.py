"""The live tail of a queue: messages as they come, newest first, without receiving them.

A browser asks again once a second while its page is in view. Server-sent events would hold one of
the two threads that a worker has for pages, probes and metrics for as long as somebody watches;
this holds one for some milliseconds, and no more than one for all who watch.
"""

import threading

import flask
from flask.typing import ResponseReturnValue

from skipmq import errors
from skipmq.console.pages import heading
from skipmq.console.visit import current

# Transactions end in another order than they wrote their times in: some seconds are asked for
# again, and the script leaves out what is there already.
OVERLAP = 5_000_000
MOST = 50
_reading = threading.Lock()


def add(pages: flask.Blueprint) -> None:
    """Add the views."""
    pages.add_url_rule("/queues/<name>/tail", "tail", _tail)
    pages.add_url_rule("/queues/<name>/tail/new", "tail_new", _new)


def _tail(name: str) -> ResponseReturnValue:
    found, error = current().attempt("PeekNewestMessages", QueueUrl=name, MaxResults=MOST)
    if error is not None and not isinstance(error, errors.AccessDenied):
        raise error
    return flask.render_template(
        "tail.html", **heading.of(name, "messages"), error=error, found=found
    )


def _new(name: str) -> ResponseReturnValue:
    """Give what has come since the browser asked last; nothing while another one is answered."""
    since = flask.request.args.get("since", type=int)
    if not _reading.acquire(blocking=False):
        return "", 204
    try:
        found = current().act(
            "PeekNewestMessages",
            QueueUrl=name,
            Since=None if since is None else max(since - OVERLAP, 0),
            MaxResults=MOST,
        )
    finally:
        _reading.release()
    return flask.render_template("tail_new.html", name=name, found=found)
