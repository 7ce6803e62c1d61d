"""Completion of form fields, as options of a datalist."""

import flask
from flask.typing import ResponseReturnValue

from skipmq.console.visit import current

_LIMIT = 20


def add(pages: flask.Blueprint) -> None:
    """Add the view."""
    pages.add_url_rule("/complete/queues", "complete_queues", _queues)


def _queues() -> ResponseReturnValue:
    """Return the names of queues with the prefix in the only field of the request."""
    prefix = next(iter(flask.request.args.values()), "").strip()
    names = []
    # Check first, because a refusal of each keystroke would be recorded in the audit log.
    if current().may_list():
        result, _ = current().attempt(
            "ListQueues", QueueNamePrefix=prefix or None, MaxResults=_LIMIT
        )
        names = [url.rpartition("/")[2] for url in result.get("QueueUrls", [])]
    return flask.render_template("options.html", options=names)
