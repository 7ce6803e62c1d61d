"""The pages that show messages of a queue, and that copy, move, redrive and delete them.

The live tail shows new messages, newest first, without receiving them: a browser polls once a
second while its page is visible. A poll occupies one of the few threads that a worker has for pages
for some milliseconds, and only one poll runs at a time; server-sent events would occupy a thread
for as long as a page is open.
"""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import flask
from flask.typing import ResponseReturnValue

from skipmq.actions.skipmq import inspection
from skipmq.console import bodies, masking, site
from skipmq.console.pages import heading
from skipmq.console.visit import current
from skipmq.protocol import body_schemas, errors, limits, names

SIZES = (20, 50, 100)
# The attribute that a consumer leaves with a message that it could not process.
FAILURE = "FailureReason"
_TRANSFERS = {
    "copy": "CopyMessages",
    "move": "MoveMessages",
    "delete": "DeletePickedMessages",
    "release": "ReleaseMessages",
    "reschedule": "ReleaseMessages",
}
_OUTCOMES = {
    "copied": "{} copied",
    "moved": "{} moved",
    "deleted": "{} deleted",
    "released": "{} made visible",
    "rescheduled": "{} rescheduled",
    "not-in-flight": "{} not in flight",
    "missing": "{} no longer in the queue",
    "in-flight": "{} skipped because they are in flight",
    "no-source": "{} skipped because they have no source queue",
}
# In microseconds. Transactions commit in another order than their times, so each poll reads some
# seconds again, and the script skips messages that are already shown.
_OVERLAP = 5_000_000
_TAIL_ROWS = 50
_reading = threading.Lock()


def add(pages: flask.Blueprint) -> None:
    path = "/queues/<name>"
    pages.add_url_rule(f"{path}/messages", "messages", _page)
    pages.add_url_rule(f"{path}/counts", "counts", _counts)
    pages.add_url_rule(f"{path}/messages/<reference>", "message", _message)
    pages.add_url_rule(f"{path}/messages/<reference>/body", "body", _body)
    pages.add_url_rule(f"{path}/transfer", "transfer", _transfer, methods=["POST"])
    pages.add_url_rule("/queues/<name>/tail", "tail", _tail)
    pages.add_url_rule("/queues/<name>/tail/new", "tail_new", _tail_new)


def _page(name: str, error: errors.SqsError | None = None) -> ResponseReturnValue:
    head = heading.build(name, "messages")
    selection = _selection()
    result, denied = current().read(
        "PeekMessages",
        QueueUrl=name,
        State=selection["state"] or None,
        Order=selection["order"] or None,
        MaxResults=selection["size"],
        NextToken=selection["token"] or None,
    )
    page = flask.render_template(
        "messages.html",
        **head,
        **selection,
        states=inspection.STATES,
        orders=inspection.ORDERS,
        sizes=SIZES,
        messages=[listed(each) for each in result.get("Messages", [])],
        ranked=result.get("Ranked"),
        most_ranked=limits.RANKED,
        next_token=result.get("NextToken", ""),
        clock=current().clock(),
        denied=denied,
        error=error,
        given=flask.request.form,
    )
    return page, 200 if error is None else error.status


def _counts(name: str) -> ResponseReturnValue:
    return flask.render_template("counts.html", **heading.build(name, ""))


def _message(name: str, reference: str) -> ResponseReturnValue:
    message = find(name, reference)
    head = heading.build(name, "messages")
    schema = head["attributes"].get("BodySchema", "")
    page = flask.render_template(
        "message.html",
        **head,
        message=None if message is None else _whole(message, schema),
        waits=[] if message is None else _waits(head, message),
        clock=current().clock(),
        failure_name=FAILURE,
    )
    return page, 404 if message is None else 200


def _waits(head: Mapping[str, Any], message: Mapping[str, Any]) -> list[str]:
    """Return, in sentences, what keeps a message from being received, and what may keep it."""
    name, attributes = head["name"], head["attributes"]
    group = message["Attributes"].get("MessageGroupId")
    found = []
    if attributes.get("Paused") == "true":
        found.append("The queue is paused.")
    if group:
        paused, _ = current().attempt(
            "ListPausedMessageGroups", QueueUrl=name, MessageGroupId=group
        )
        found += [
            f"Group {group} is paused by {each['PausedBy']}." for each in paused.get("Groups", ())
        ]
    if group and head["fifo"]:
        result, _ = current().attempt("ListMessageGroups", QueueUrl=name, MessageGroupId=group)
        found += [
            f"Group {group} is {each['State'].replace('-', ' ')}: its first message is"
            f" {each['MessageId']}."
            for each in result.get("Groups", ())
            if each["MessageReference"] != message["MessageReference"]
        ]
    if message["State"] == "in-flight" and attributes.get("RetryBackoff"):
        found.append("When its visibility timeout ends it waits as long as RetryBackoff says.")
    if message["State"] == "visible":
        found += _limits(head, is_grouped=bool(group))
    return found


def _limits(head: Mapping[str, Any], *, is_grouped: bool) -> list[str]:
    """Return, in sentences, the limits that a visible message may wait for."""
    attributes, counts = head["attributes"], head["counts"]
    found = []
    if (most := attributes.get("MaximumInFlight")) and counts[1] >= int(most):
        found.append(f"The queue is at its limit of {most} in flight.")
    limits_of = ["MaximumReceiveRate"]
    if is_grouped:
        limits_of += ["MaximumInFlightPerGroup", "MaximumReceiveRatePerGroup"]
    found += [
        f"It may wait for {each}, which is {attributes[each]}."
        for each in limits_of
        if attributes.get(each)
    ]
    return found


def _body(name: str, reference: str) -> ResponseReturnValue:
    message = find(name, reference)
    if message is None:
        return flask.render_template("message.html", **heading.build(name, "messages")), 404
    # As it was sent: a browser neither shows nor interprets it.
    response = flask.Response(message["Body"], content_type="application/octet-stream")
    response.headers["Content-Disposition"] = f'attachment; filename="{message["MessageId"]}.txt"'
    return response


def find(name: str, reference: str) -> dict[str, Any] | None:
    """Return a message of a queue, or None if the queue no longer has it."""
    result = current().act("PeekMessages", QueueUrl=name, MessageReferences=[reference])
    return next(iter(result["Messages"]), None)


def listed(message: Mapping[str, Any]) -> dict[str, Any]:
    """Add what the row of a list shows to a message."""
    attributes = message.get("MessageAttributes", {})
    body = bodies.decoded(message["Body"], bodies.PREVIEW)
    return {
        **message,
        "preview": body.text[:200],
        "encodings": message.get("Encodings", body.encodings),
        "bytes": len(message["Body"].encode()),
        "failure": attributes.get(FAILURE, {}).get("StringValue", ""),
        "source": source(message),
    }


def _whole(message: Mapping[str, Any], schema: str) -> dict[str, Any]:
    """Add what the page of a message shows to it."""
    body = bodies.decoded(message["Body"])
    # A masked body is another one.
    is_checked = schema and message["MD5OfBody"] != masking.HIDDEN
    return listed(message) | {
        "text": body.text,
        "encodings": message.get("Encodings", body.encodings),
        "unfit": body_schemas.read(schema).problem(message["Body"]) if is_checked else None,
    }


def source(message: Mapping[str, Any]) -> str:
    """Return the ARN of the queue that a dead-lettered message came from, or an empty text."""
    return str(message["Attributes"].get("DeadLetterQueueSourceArn", ""))


@site.showing_errors(_page)
def _transfer(name: str) -> ResponseReturnValue:
    """Copy, move, redrive or delete the selected messages."""
    form = flask.request.form
    target = form.get("destination", "").strip()
    notice = transfer(name, form.get("how", ""), target, form.getlist("reference"))
    site.notice(notice)
    return site.see("messages", name=name, state=form.get("state") or None)


def transfer(name: str, how: str, target: str, references: Sequence[str]) -> str:
    """Copy, move, redrive or delete messages; return what came of it, in a sentence."""
    if not references:
        raise errors.InvalidParameterValueException("Select messages first.")
    if how == "redrive":
        target, outcomes = "", _redrive(name, references)
    elif how in {"delete", "release"}:
        target, outcomes = "", _act(how, name, None, references)
    elif how == "reschedule":
        seconds = 60 * flask.request.args.get("minutes", 0, int)
        target, outcomes = "", _act(how, name, None, references, VisibleInSeconds=seconds)
    elif not target:
        raise errors.InvalidParameterValueException("Specify the destination queue.")
    else:
        outcomes = _act("move" if how == "move" else "copy", name, target, references)
    back = " back to their source queues" if how == "redrive" and "moved" in outcomes else ""
    return f"{f'To {target}: ' if target else ''}{outcomes_of(outcomes)}{back}."


def outcomes_of(outcomes: Sequence[str]) -> str:
    """Return how many messages have each outcome, in words."""
    return ", ".join(
        text.format(f"{outcomes.count(outcome):,}")
        for outcome, text in _OUTCOMES.items()
        if outcome in outcomes
    )


def _act(
    how: str, name: str, target: str | None, references: Sequence[str], **members: int
) -> list[str]:
    result = current().act(
        _TRANSFERS[how],
        QueueUrl=name,
        DestinationQueueUrl=target,
        MessageReferences=list(references),
        **members,
    )
    return [each["Outcome"] for each in result["Results"]]


def _redrive(name: str, references: Sequence[str]) -> list[str]:
    """Move messages to the queues that they came from, and return their outcomes."""
    found = current().act("PeekMessages", QueueUrl=name, MessageReferences=list(references))
    sources: dict[str, list[str]] = {}
    for each in found["Messages"]:
        sources.setdefault(source(each), []).append(each["MessageReference"])
    outcomes = ["missing"] * (len(references) - len(found["Messages"]))
    for arn, picked in sources.items():
        origin = names.in_arn(arn) or names.Named("", "")
        try:
            outcomes += _act("move", name, f"/{origin.account}/{origin.name}", picked)
        except errors.QueueDoesNotExist:
            outcomes += ["no-source"] * len(picked)
    return outcomes


def _selection() -> dict[str, Any]:
    """Return state, order, page size and token from the query string or from the form."""
    values = flask.request.values
    state, order = values.get("state", ""), values.get("order", "")
    size = values.get("size", SIZES[0], int)
    return {
        "state": state if state in inspection.STATES else "",
        "order": order if order in inspection.ORDERS else "",
        "size": size if size in SIZES else SIZES[0],
        "token": values.get("token", ""),
    }


def _tail(name: str) -> ResponseReturnValue:
    result, error = current().read("PeekNewestMessages", QueueUrl=name, MaxResults=_TAIL_ROWS)
    return flask.render_template(
        "tail.html", **heading.build(name, "messages"), error=error, result=result
    )


def _tail_new(name: str) -> ResponseReturnValue:
    """Return the messages since the browser's last poll; return 204 while another poll runs."""
    since = flask.request.args.get("since", type=int)
    if not _reading.acquire(blocking=False):
        return "", 204
    try:
        result = current().act(
            "PeekNewestMessages",
            QueueUrl=name,
            Since=None if since is None else max(since - _OVERLAP, 0),
            MaxResults=_TAIL_ROWS,
        )
    finally:
        _reading.release()
    return flask.render_template("tail_new.html", name=name, result=result)
