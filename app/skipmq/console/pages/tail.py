"""The live tail of a queue: new messages, newest first, without receiving them.

A browser polls once a second while its page is visible. A poll occupies one of the few threads that
a worker has for pages for some milliseconds, and only one poll runs at a time; server-sent events
would occupy a thread for as long as a page is open.
"""

import threading

import flask
from flask.typing import ResponseReturnValue

from skipmq.console.pages import heading
from skipmq.console.visit import current

# In microseconds. Transactions commit in another order than their times, so each poll reads some
# seconds again, and the script skips messages that are already shown.
OVERLAP = 5_000_000
LIMIT = 50
_reading = threading.Lock()


def add(pages: flask.Blueprint) -> None:
    """Add the views."""
    pages.add_url_rule("/queues/<name>/tail", "tail", _tail)
    pages.add_url_rule("/queues/<name>/tail/new", "tail_new", _new)


def _tail(name: str) -> ResponseReturnValue:
    result, error = current().read("PeekNewestMessages", QueueUrl=name, MaxResults=LIMIT)
    return flask.render_template(
        "tail.html", **heading.build(name, "messages"), error=error, result=result
    )


def _new(name: str) -> ResponseReturnValue:
    """Return the messages since the browser's last poll; return 204 while another poll runs."""
    since = flask.request.args.get("since", type=int)
    if not _reading.acquire(blocking=False):
        return "", 204
    try:
        result = current().act(
            "PeekNewestMessages",
            QueueUrl=name,
            Since=None if since is None else max(since - OVERLAP, 0),
            MaxResults=LIMIT,
        )
    finally:
        _reading.release()
    return flask.render_template("tail_new.html", name=name, result=result)
