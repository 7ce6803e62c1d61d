"""The page that starts a task on matching messages; the redrive page shows its progress."""

from typing import Any

import flask
from flask.typing import ResponseReturnValue

from skipmq import errors, limits
from skipmq.console import site
from skipmq.console.masking import HIDDEN
from skipmq.console.pages import heading
from skipmq.console.visit import current, text, whole_number
from skipmq.extensions import tasks

# The number of messages whose attributes are offered for completion.
_SAMPLE = 20
_NOT_OFFERED = (None, HIDDEN)
_NOTICES = {
    "move": "Started to move messages.",
    "copy": "Started to copy messages.",
    "delete": "Started to delete messages.",
}


def add(pages: flask.Blueprint) -> None:
    """Add the views."""
    path = "/queues/<name>/matching"
    pages.add_url_rule(path, "matching", _matching)
    pages.add_url_rule(path, "start_task", _start, methods=["POST"])


def _matching(name: str) -> ResponseReturnValue:
    return _page(name)


def _page(name: str, error: errors.SqsError | None = None) -> ResponseReturnValue:
    head = heading.build(name, "messages")
    sample: dict[str, Any] = {}
    if "PeekMessages" in head["rights"]:
        sample, _ = current().attempt("PeekMessages", QueueUrl=name, MaxResults=_SAMPLE)
    attributes = [
        (key, value.get("StringValue"))
        for message in sample.get("Messages", [])
        for key, value in message.get("MessageAttributes", {}).items()
    ]
    page = flask.render_template(
        "matching.html",
        **head,
        kinds=tasks.KINDS,
        attribute_names=sorted({key for key, _ in attributes}),
        attribute_values=sorted({value for _, value in attributes if value not in _NOT_OFFERED}),
        fastest=limits.MOVES_PER_SECOND,
        error=error,
        given=flask.request.values,
    )
    return page, 200 if error is None else error.status


def _start(name: str) -> ResponseReturnValue:
    kind = text("kind") or ""
    target = (text("destination") or "").strip()
    try:
        if kind == "delete" and not text("sure"):
            raise errors.InvalidParameterValueException("Confirm the permanent deletion.")
        current().act(
            "StartMessageTask",
            QueueUrl=name,
            Kind=kind,
            DestinationQueueUrl=target if target and kind != "delete" else None,
            BodyContains=text("body"),
            AttributeName=text("attribute"),
            AttributeValue=text("value"),
            MaxNumberOfMessagesPerSecond=whole_number("rate"),
        )
    except errors.SqsError as error:
        return _page(name, error)
    site.notice(_NOTICES[kind])
    return site.see("redrive", name=name)
