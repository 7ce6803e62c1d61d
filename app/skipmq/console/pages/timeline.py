"""The page with the events of a message."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import flask
from flask.typing import ResponseReturnValue

from skipmq.console import drawing, formats
from skipmq.console.pages import heading
from skipmq.console.visit import current
from skipmq.protocol import errors

_MINUTE = 60_000_000
# One search at a time, which may take a second: several would leave other pages no thread.
_reading = threading.Lock()


def add(pages: flask.Blueprint) -> None:
    pages.add_url_rule("/queues/<name>/timeline", "timeline", _timeline)


def _timeline(name: str) -> ResponseReturnValue:
    arguments = flask.request.args
    message = arguments.get("message", "").strip()
    result: dict[str, Any] = {}
    error = None
    if message:
        result, error = _search(name, message)
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


def _search(name: str, message: str) -> tuple[dict[str, Any], errors.SqsError | None]:
    """Return the timeline of a message, or an error of the access key or of the message ID."""
    arguments = flask.request.args
    if not _reading.acquire(timeout=2):
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
        _reading.release()


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
