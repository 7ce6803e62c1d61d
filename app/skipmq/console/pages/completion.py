"""What a field may be completed with, as the options of its list."""

import flask
from flask.typing import ResponseReturnValue

from skipmq.console.visit import current

_MOST = 20


def add(pages: flask.Blueprint) -> None:
    """Add the view."""
    pages.add_url_rule("/complete/queues", "complete_queues", _queues)


def _queues() -> ResponseReturnValue:
    """Give names of queues that begin as the one field of the request does."""
    begun = next(iter(flask.request.args.values()), "").strip()
    names = []
    # Nobody has asked: a refusal would be on the record at each letter.
    if current().may_list():
        found, _ = current().attempt("ListQueues", QueueNamePrefix=begun or None, MaxResults=_MOST)
        names = [url.rpartition("/")[2] for url in found.get("QueueUrls", [])]
    return flask.render_template("options.html", options=names)
