"""The page of a queue's consumers."""

import flask
from flask.typing import ResponseReturnValue

from skipmq.console.pages import heading
from skipmq.console.visit import current


def add(pages: flask.Blueprint) -> None:
    """Add the view."""
    pages.add_url_rule("/queues/<name>/consumers", "consumers", _consumers)


def _consumers(name: str) -> ResponseReturnValue:
    result, error = current().read("ListConsumers", QueueUrl=name)
    return flask.render_template(
        "consumers.html",
        **heading.build(name, "consumers"),
        error=error,
        consumers=result.get("Consumers", []),
        waiting=result.get("WaitingReceivers", 0),
    )
