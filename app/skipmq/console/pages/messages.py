"""The messages of a queue: peeked at, copied, moved and deleted."""

from typing import Any

import flask
from flask.typing import ResponseReturnValue

from skipmq import errors, limits
from skipmq.console import site
from skipmq.console.pages import heading
from skipmq.console.visit import current

STATES = ("visible", "in-flight", "delayed")
SIZES = (20, 50, 100)
_TRANSFERS = {"move": "MoveMessages", "delete": "DeletePickedMessages"}
_OUTCOMES = {
    "copied": "{} copied",
    "moved": "{} moved",
    "deleted": "{} deleted",
    "missing": "{} not there any more",
    "in-flight": "{} in flight, which stay",
}


def add(pages: flask.Blueprint) -> None:
    """Add the views."""
    pages.add_url_rule("/queues/<name>", "messages", _messages)
    pages.add_url_rule("/queues/<name>/counts", "counts", _counts)
    pages.add_url_rule("/queues/<name>/messages/<reference>", "message", _message)
    pages.add_url_rule("/queues/<name>/transfer", "transfer", _transfer, methods=["POST"])


def _messages(name: str) -> ResponseReturnValue:
    return _page(name)


def _page(name: str, error: errors.SqsError | None = None) -> ResponseReturnValue:
    head = heading.of(name, "messages")
    asked = _asked()
    found, refused = current().attempt("PeekMessages", QueueUrl=name, **_peek(asked))
    if refused is not None and not isinstance(refused, errors.AccessDenied):
        raise refused
    page = flask.render_template(
        "messages.html",
        **head,
        **asked,
        states=STATES,
        sizes=SIZES,
        messages=found.get("Messages", []),
        next_token=found.get("NextToken", ""),
        refused=refused,
        error=error,
        given=flask.request.form,
    )
    return page, 200 if error is None else error.status


def _counts(name: str) -> ResponseReturnValue:
    return flask.render_template("counts.html", **heading.of(name, ""))


def _message(name: str, reference: str) -> ResponseReturnValue:
    """Show one message whole."""
    asked = _asked() | {"size": limits.PEEKED}
    message = _found(name, reference, asked)
    page = flask.render_template(
        "message.html", **heading.of(name, "messages"), **asked, message=message
    )
    return page, 404 if message is None else 200


def _found(name: str, reference: str, asked: dict[str, Any]) -> dict[str, Any] | None:
    """Return a message, which is looked for among the first where its list began."""
    peek, passed = _peek(asked), 0
    while passed < limits.PEEKED:
        page = current().act("PeekMessages", QueueUrl=name, **peek)
        for each in page["Messages"]:
            if each["MessageReference"] == reference:
                return dict(each)
        if "NextToken" not in page:
            break
        passed += len(page["Messages"])
        peek["NextToken"] = page["NextToken"]
    return None


def _transfer(name: str) -> ResponseReturnValue:
    """Copy, move or delete the messages that were chosen."""
    form = flask.request.form
    action = _TRANSFERS.get(form.get("how", ""), "CopyMessages")
    target = form.get("destination", "").strip() if action != "DeletePickedMessages" else None
    try:
        if not form.getlist("reference"):
            raise errors.InvalidParameterValueException("Choose the messages first.")
        if target == "":
            raise errors.InvalidParameterValueException("Name the queue that they shall go to.")
        found = current().act(
            action,
            QueueUrl=name,
            DestinationQueueUrl=target,
            MessageReferences=form.getlist("reference"),
        )
    except errors.SqsError as error:
        return _page(name, error)
    outcomes = [each["Outcome"] for each in found["Results"]]
    parts = [
        text.format(outcomes.count(outcome))
        for outcome, text in _OUTCOMES.items()
        if outcome in outcomes
    ]
    site.notice(f"{f'To {target}: ' if target else ''}{', '.join(parts)}.")
    return site.see("messages", name=name, state=form.get("state") or None)


def _asked() -> dict[str, Any]:
    """Return which messages the page shows, by its address or by the form on it."""
    values = flask.request.values
    state, size = values.get("state", ""), values.get("size", SIZES[0], int)
    return {
        "state": state if state in STATES else "",
        "size": size if size in SIZES else SIZES[0],
        "token": values.get("token", ""),
    }


def _peek(asked: dict[str, Any]) -> dict[str, Any]:
    return {
        "State": asked["state"] or None,
        "MaxResults": asked["size"],
        "NextToken": asked["token"] or None,
    }
