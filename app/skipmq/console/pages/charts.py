"""The page with charts of a queue's activity and of the time that messages spend in it."""

import threading
from collections.abc import Mapping
from typing import Any

import flask
from flask.typing import ResponseReturnValue

from skipmq import errors
from skipmq.console import drawing
from skipmq.console.pages import heading
from skipmq.console.visit import current

# Lengths of the charts, and of the steps of percentiles, in minutes.
PERIODS = {15: 1, 60: 2, 360: 12}
_DEFAULT = 60
# The charts of one page are read at a time, because probes and metrics share the two threads of
# pages; opening another page waits for at most two seconds.
_reading = threading.Lock()
_FLOWS = (
    ("Sent", "Sent", "sent"),
    ("Received", "Received", "received"),
    ("Deleted", "Deleted", "deleted"),
    ("DeadLettered", "Dead-lettered", "dead"),
)
_WAITING = (("Messages", "Messages", "sent"),)
_QUANTILES = (("P50", "p50", "deleted"), ("P95", "p95", "received"), ("P99", "p99", "dead"))
_MEASURES = (
    ("SendToDelete", "Time in queue, send to delete"),
    ("SendToReceive", "Time to the first receive"),
)


def add(pages: flask.Blueprint) -> None:
    """Add the views."""
    pages.add_url_rule("/queues/<name>/charts", "charts", _charts)


def _charts(name: str) -> ResponseReturnValue:
    requested = flask.request.args.get("minutes", _DEFAULT, int)
    minutes = requested if requested in PERIODS else _DEFAULT
    is_poll = flask.request.headers.get("HX-Trigger") == "charts"
    if not _reading.acquire(blocking=not is_poll, timeout=-1 if is_poll else 2):
        if is_poll:
            return "", 204
        raise errors.ServiceUnavailable("Other charts are being read; try again in a moment.")
    try:
        activity, error = current().attempt(
            "GetQueueActivity", QueueUrl=name, Minutes=minutes, StepMinutes=PERIODS[minutes]
        )
    finally:
        _reading.release()
    if error is not None and not isinstance(error, errors.AccessDenied):
        raise error
    return flask.render_template(
        "charts.html",
        **heading.build(name, "charts"),
        minutes=minutes,
        periods=PERIODS,
        error=error,
        activity=activity,
        charts=_drawn(activity, minutes) if activity else [],
    )


def _drawn(activity: Mapping[str, Any], minutes: int) -> list[drawing.Chart]:
    """Return the charts, which end at the present minute of the database."""
    end = activity["Clock"] // 60 * 60
    times = range(end - (minutes - 1) * 60, end + 60, 60)
    by_minute = {each["Minute"]: each for each in activity["Minutes"]}
    flows = {
        label: [by_minute[time][name] if time in by_minute else 0 for time in times]
        for name, label, _ in _FLOWS
    }
    charts = [
        drawing.chart(
            "Messages per minute", times, 60, _colours(_FLOWS), flows, unit=drawing.COUNT
        ),
        drawing.chart(
            "Messages in the queue",
            times,
            60,
            _colours(_WAITING),
            {"Messages": _carried(by_minute, times)},
            unit=drawing.COUNT,
        ),
    ]
    step = PERIODS[minutes] * 60
    starts = range(times[0] // step * step, end + 60, step)
    by_step = {each["Start"]: each for each in activity.get("Steps", [])}
    for measure, title in _MEASURES:
        values = {
            label: [by_step.get(start, {}).get(measure, {}).get(name) for start in starts]
            for name, label, _ in _QUANTILES
        }
        if measure in activity.get("TimeInQueue", {}):
            drawn = drawing.chart(
                title, starts, step, _colours(_QUANTILES), values, unit=drawing.TIME
            )
            drawn.summary = {
                label: drawing.span(activity["TimeInQueue"][measure][name])
                for name, label, _ in _QUANTILES
            }
            charts.append(drawn)
    return charts


def _colours(lines: tuple[tuple[str, str, str], ...]) -> dict[str, str]:
    return {label: colour for _, label, colour in lines}


def _carried(by_minute: Mapping[int, Mapping[str, int]], times: range) -> list[int | None]:
    """Return the number of messages in each minute; minutes without changes repeat the last."""
    last: int | None = None
    carried = []
    for time in times:
        last = by_minute[time]["Messages"] if time in by_minute else last
        carried.append(last)
    return carried
