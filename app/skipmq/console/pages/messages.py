"""The page that shows, copies, moves and deletes messages of a queue."""

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
    "missing": "{} no longer in the queue",
    "in-flight": "{} skipped because they are in flight",
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
    head = heading.build(name, "messages")
    selection = _selection()
    result, denied = current().attempt("PeekMessages", QueueUrl=name, **_peek(selection))
    if denied is not None and not isinstance(denied, errors.AccessDenied):
        raise denied
    page = flask.render_template(
        "messages.html",
        **head,
        **selection,
        states=STATES,
        sizes=SIZES,
        messages=result.get("Messages", []),
        next_token=result.get("NextToken", ""),
        denied=denied,
        error=error,
        given=flask.request.form,
    )
    return page, 200 if error is None else error.status


def _counts(name: str) -> ResponseReturnValue:
    return flask.render_template("counts.html", **heading.build(name, ""))


def _message(name: str, reference: str) -> ResponseReturnValue:
    """Show a message with its whole body."""
    selection = _selection() | {"size": limits.PEEKED}
    message = _find(name, reference, selection)
    page = flask.render_template(
        "message.html", **heading.build(name, "messages"), **selection, message=message
    )
    return page, 404 if message is None else 200


def _find(name: str, reference: str, selection: dict[str, Any]) -> dict[str, Any] | None:
    """Search a message among the first ones from the token of its list on."""
    peek, passed = _peek(selection), 0
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
    """Copy, move or delete the selected messages."""
    form = flask.request.form
    action = _TRANSFERS.get(form.get("how", ""), "CopyMessages")
    target = form.get("destination", "").strip() if action != "DeletePickedMessages" else None
    try:
        if not form.getlist("reference"):
            raise errors.InvalidParameterValueException("Select messages first.")
        if target == "":
            raise errors.InvalidParameterValueException("Specify the destination queue.")
        result = current().act(
            action,
            QueueUrl=name,
            DestinationQueueUrl=target,
            MessageReferences=form.getlist("reference"),
        )
    except errors.SqsError as error:
        return _page(name, error)
    outcomes = [each["Outcome"] for each in result["Results"]]
    parts = [
        text.format(outcomes.count(outcome))
        for outcome, text in _OUTCOMES.items()
        if outcome in outcomes
    ]
    site.notice(f"{f'To {target}: ' if target else ''}{', '.join(parts)}.")
    return site.see("messages", name=name, state=form.get("state") or None)


def _selection() -> dict[str, Any]:
    """Return state, page size and token from the query string or from the form."""
    values = flask.request.values
    state, size = values.get("state", ""), values.get("size", SIZES[0], int)
    return {
        "state": state if state in STATES else "",
        "size": size if size in SIZES else SIZES[0],
        "token": values.get("token", ""),
    }


def _peek(selection: dict[str, Any]) -> dict[str, Any]:
    return {
        "State": selection["state"] or None,
        "MaxResults": selection["size"],
        "NextToken": selection["token"] or None,
    }
