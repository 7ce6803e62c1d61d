"""What has happened to one message, as a line of events."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import flask
from flask.typing import ResponseReturnValue

from skipmq import errors
from skipmq.console import drawing, formats
from skipmq.console.pages import heading
from skipmq.console.visit import current

_MINUTE = 60_000_000
# A search may read for a second, and probes and metrics need the two threads of the pages, too.
_reading = threading.Lock()


def add(pages: flask.Blueprint) -> None:
    """Add the view."""
    pages.add_url_rule("/queues/<name>/timeline", "timeline", _timeline)


def _timeline(name: str) -> ResponseReturnValue:
    given = flask.request.args
    message = given.get("message", "").strip()
    found: dict[str, Any] = {}
    error = None
    if message:
        found, error = _found(name, message)
    page = flask.render_template(
        "timeline.html",
        **heading.of(name, "messages"),
        message=message,
        reference=given.get("reference", ""),
        error=error,
        found=found,
        events=_drawn(found.get("Events", [])),
        # Only what changes is asked for again, and only where that reads no history.
        is_live=found.get("State") in ("visible", "in-flight", "delayed")
        and "HistorySearchedFrom" not in found,
    )
    return page, 200 if error is None else error.status


def _found(name: str, message: str) -> tuple[dict[str, Any], errors.SqsError | None]:
    """Return what the node knows of a message, or the error of a key or an id that will not do."""
    given = flask.request.args
    if not _reading.acquire(timeout=2):
        raise errors.ServiceUnavailable("Others search for messages; try again in a moment.")
    try:
        found, error = current().attempt(
            "GetMessageTimeline",
            QueueUrl=name,
            MessageId=message,
            MessageReference=given.get("reference") or None,
            NextToken=given.get("token") or None,
        )
    finally:
        _reading.release()
    if isinstance(error, errors.AccessDenied | errors.InvalidParameterValueException | None):
        return found, error
    raise error


def _drawn(events: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return events with the time that passed since the one before."""
    drawn = []
    before: int | None = None
    for event in events:
        at = event.get("At")
        passed = None if at is None or before is None else max(at - before, 0)
        drawn.append({**event, "after": None if passed is None else _span(passed)})
        before = at or before
    return drawn


def _span(microseconds: int) -> str:
    if microseconds < _MINUTE:
        return drawing.span(microseconds)
    return formats.duration(microseconds // 1_000_000)
