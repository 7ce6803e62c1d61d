"""The pages that search a queue, act on what was found, and show the events of a message."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import flask
from flask.typing import ResponseReturnValue

from skipmq.console import drawing, formats, site
from skipmq.console.masking import HIDDEN
from skipmq.console.pages import heading, messages
from skipmq.console.visit import current
from skipmq.protocol import errors, limits

# What makes a request for the page a search.
_FIELDS = ("body", "path", "attribute", "value", "receives", "minutes", "failure", "none", "go")
_SHOWN = 50
# The number of messages whose attributes complete the fields, before there are found ones.
_SAMPLE = 20
_NOTICES = {
    "move": "Started to move messages.",
    "copy": "Started to copy messages.",
    "delete": "Started to delete messages.",
}
# One search at a time, which may take a second: several would leave other pages no thread.
_reading = threading.Lock()
_MINUTE = 60_000_000
# One search at a time, which may take a second: several would leave other pages no thread.
_reading_timeline = threading.Lock()


def add(pages: flask.Blueprint) -> None:
    path = "/queues/<name>/search"
    pages.add_url_rule(path, "search", _page)
    pages.add_url_rule(path, "start_task", _start, methods=["POST"])
    pages.add_url_rule("/queues/<name>/timeline", "timeline", _timeline)


def _page(name: str, error: errors.SqsError | None = None) -> ResponseReturnValue:
    head = heading.build(name, "messages")
    values = flask.request.values
    step: dict[str, Any] = {}
    refused = None
    if error is None and any(values.get(field) for field in _FIELDS):
        try:
            step = _step(name)
        except errors.SqsError as failure:
            if isinstance(failure, errors.ServiceUnavailable | errors.QueueDoesNotExist):
                raise
            refused = failure
    attributes = _attributes(step.get("Messages") or _sample(name, head["rights"]))
    found_before, searched_before, _ = _progress()
    found = found_before + step.get("Found", 0)
    searched = searched_before + step.get("Searched", 0)
    following = step.get("NextToken", "")
    # Exactly what one step has found, where that is all and not too much for a request.
    is_exact = not searched_before and not following and found <= limits.PICKED
    page = flask.render_template(
        "search.html",
        **head,
        given=values,
        attribute_names=sorted({key for key, _ in attributes}),
        attribute_values=sorted({value for _, value in attributes if value not in (None, HIDDEN)}),
        messages=[messages.listed(each) for each in step.get("Messages", [])],
        found=found,
        searched=searched,
        in_queue=sum(head["counts"] or []),
        step=step,
        # A later step, or a task, has the times of the first one.
        fields=_fields() | {"until": values.get("until") or str(step.get("Clock", ""))},
        after=f"{found}.{searched}.{following}" if following else "",
        searched_before=searched_before,
        references=" ".join(step.get("MessageReferences", [])) if is_exact else "",
        fastest=limits.MOVES_PER_SECOND,
        refused=refused,
        error=error,
        is_masked=bool(current().mask),
    )
    failed = error or refused
    return page, 200 if failed is None else failed.status


def _sample(name: str, rights: frozenset[str]) -> list[dict[str, Any]]:
    """Return some messages of a queue, none without the right to peek."""
    if "PeekMessages" not in rights:
        return []
    result, _ = current().attempt("PeekMessages", QueueUrl=name, MaxResults=_SAMPLE)
    found: list[dict[str, Any]] = result.get("Messages", [])
    return found


def _attributes(found: list[dict[str, Any]]) -> list[tuple[str, str | None]]:
    """Return the names and the texts of the attributes of messages."""
    return [
        (key, value.get("StringValue"))
        for message in found
        for key, value in message.get("MessageAttributes", {}).items()
    ]


def _step(name: str) -> dict[str, Any]:
    """Run one step of the search.

    A script that finds another search running asks again, and holds no thread meanwhile.
    """
    is_script = flask.request.headers.get("HX-Trigger") == "found"
    if not (_reading.acquire(blocking=False) or (not is_script and _reading.acquire(timeout=2))):
        if is_script:
            flask.abort(flask.Response(status=204))
        raise errors.ServiceUnavailable("Another search is running; try again in a moment.")
    try:
        return current().act(
            "SearchMessages",
            QueueUrl=name,
            MaxResults=_SHOWN,
            NextToken=_progress()[2] or None,
            **_filter(),
        )
    finally:
        _reading.release()


@site.showing_errors(_page)
def _start(name: str) -> ResponseReturnValue:
    """Move, copy, redrive or delete what was found, or start a task on all that match."""
    form = flask.request.form
    how, target = form.get("how", ""), form.get("destination", "").strip()
    references = form.get("references", "").split()
    if references:
        site.notice(messages.transfer(name, how, target, references))
        return site.see("messages", name=name)
    current().act(
        "StartMessageTask",
        QueueUrl=name,
        Kind=how,
        DestinationQueueUrl=target if target and how != "delete" else None,
        VisibleBefore=_number("until"),
        MaxNumberOfMessagesPerSecond=_number("rate"),
        **_filter(),
    )
    site.notice(_NOTICES[how])
    return site.see("redrive", name=name)


def _filter() -> dict[str, Any]:
    """Return the members of the filter in the fields of a form."""
    values = flask.request.values
    return {
        "BodyContains": _text("body"),
        "BodyPath": _text("path"),
        "AttributeName": _text("attribute"),
        "AttributeValue": _text("value"),
        "MinimumReceiveCount": _number("receives"),
        "SentBefore": _sent_before(),
        "FailureKind": "" if values.get("none") else _text("failure"),
    }


def _fields() -> dict[str, str]:
    """Return the fields of the filter that is searched for, with a fixed time."""
    values = flask.request.values
    given = {field: values[field] for field in _FIELDS if values.get(field)}
    before = _sent_before() if given.get("minutes", "").isdecimal() else None
    return given | ({} if before is None else {"before": str(before)})


def _sent_before() -> int | None:
    """Return the time in milliseconds of an age in minutes."""
    before, minutes = _number("before"), _number("minutes")
    if before is not None or minutes is None:
        return before
    return int(current().clock() * 1_000) - minutes * 60_000


def _progress() -> tuple[int, int, str]:
    """Return what the steps before found and searched, and the token of the next one."""
    found, _, rest = flask.request.values.get("after", "").partition(".")
    searched, _, token = rest.partition(".")
    if not (found.isdecimal() and searched.isdecimal()):
        return 0, 0, ""
    return int(found[:18]), int(searched[:18]), token


def _text(field: str) -> str | None:
    return flask.request.values.get(field, "").replace("\r\n", "\n") or None


def _number(field: str) -> int | None:
    text = flask.request.values.get(field, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):  # noqa: PLR2004 - of a bigint.
        raise errors.InvalidParameterValueException(
            f"Value {errors.shown(text)} for {field} is invalid. Reason: Must be an integer."
        )
    return int(text)


def _timeline(name: str) -> ResponseReturnValue:
    arguments = flask.request.args
    message = arguments.get("message", "").strip()
    result: dict[str, Any] = {}
    error = None
    if message:
        result, error = _timeline_search(name, message)
    page = flask.render_template(
        "timeline.html",
        **heading.build(name, "messages"),
        message=message,
        reference=arguments.get("reference", ""),
        error=error,
        result=result,
        hide=current().mask.reason,
        events=_with_intervals(result.get("Events", [])),
        # Refresh only messages that can change, and only if that does not search the history.
        is_live=result.get("State") in ("visible", "in-flight", "delayed")
        and "HistorySearchedFrom" not in result,
    )
    return page, 200 if error is None else error.status


def _timeline_search(name: str, message: str) -> tuple[dict[str, Any], errors.SqsError | None]:
    """Return the timeline of a message, or an error of the access key or of the message ID."""
    arguments = flask.request.args
    if not _reading_timeline.acquire(timeout=2):
        raise errors.ServiceUnavailable("Another search is running; try again in a moment.")
    try:
        return current().read(
            "GetMessageTimeline",
            errors.InvalidParameterValueException,
            QueueUrl=name,
            MessageId=message,
            MessageReference=arguments.get("reference") or None,
            NextToken=arguments.get("token") or None,
        )
    finally:
        _reading_timeline.release()


def _with_intervals(events: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Add the time since the previous event to each event."""
    result = []
    before: int | None = None
    for event in events:
        at = event.get("At")
        passed = None if at is None or before is None else max(at - before, 0)
        result.append({**event, "after": None if passed is None else _span(passed)})
        before = at or before
    return result


def _span(microseconds: int) -> str:
    if microseconds < _MINUTE:
        return drawing.span(microseconds)
    return formats.duration(microseconds // 1_000_000)
