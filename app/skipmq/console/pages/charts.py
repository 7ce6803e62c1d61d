"""The page with charts of a queue's activity and of the time that messages spend in it."""

import threading
from collections.abc import Mapping
from typing import Any

import flask
from flask.typing import ResponseReturnValue

from skipmq.console import drawing
from skipmq.console.pages import heading, marks
from skipmq.console.visit import current
from skipmq.protocol import errors

# Lengths of the charts, and of the steps of counts and of percentiles, in minutes.
PERIODS = {15: (1, 1), 60: (1, 2), 360: (1, 12), 1_440: (10, 30), 10_080: (60, 60)}
_HOUR, _MINUTE = 60, 1
_DEFAULT = 60
# The charts of one page are read at a time, so that refreshes leave other pages a thread; opening
# another page waits for at most two seconds.
_reading = threading.Lock()
_FLOWS = (
    ("Sent", "Sent", "sent"),
    ("Received", "Received", "received"),
    ("Deleted", "Deleted", "deleted"),
    ("DeadLettered", "Dead-lettered", "dead"),
    ("Expired", "Expired", "expired"),
)
_QUANTILES = (("P50", "p50", "deleted"), ("P95", "p95", "received"), ("P99", "p99", "dead"))
_MEASURES = (
    ("SendToDelete", "Time in queue, send to delete"),
    ("SendToReceive", "Time to the first receive"),
)


def add(pages: flask.Blueprint) -> None:
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
        activity, error = current().read(
            "GetQueueActivity", QueueUrl=name, Minutes=minutes, StepMinutes=_asked_step(minutes)
        )
    finally:
        _reading.release()
    times = _times(activity["Clock"], minutes) if activity else range(0)
    first = min((each["Minute"] for each in activity.get("Minutes", [])), default=None)
    head = heading.build(name, "charts")
    created = int(head["attributes"].get("CreatedTimestamp", 0))
    return flask.render_template(
        "charts.html",
        **head,
        minutes=minutes,
        periods=PERIODS,
        error=error,
        activity=activity,
        charts=_drawn(activity, minutes, times, created) if activity else [],
        first=first if first is not None and first > max(times[0], created) else None,
        created=created,
        events=drawing.placed(marks.queue_events(head["arn"], activity["Clock"]), times)
        if activity
        else [],
    )


def _asked_step(minutes: int) -> int:
    """Return the step to ask for: of percentiles, and of counts that are not kept by the minute."""
    step, quantiles = PERIODS[minutes]
    return quantiles if step == _MINUTE else step


def _times(clock: int, minutes: int) -> range:
    """Return the beginnings of the steps of the counts; the last one holds the present."""
    step = PERIODS[minutes][0] * 60
    end = clock // step * step
    return range(end + step - minutes * 60, end + step, step)


def _drawn(
    activity: Mapping[str, Any], minutes: int, times: range, created: int
) -> list[drawing.Chart]:
    """Return the charts, which end at the present step of the database.

    Before the queue was created there is nothing to draw.
    """
    width = times.step
    unit = "minute" if width == 60 * _MINUTE else "hour" if width == 60 * _HOUR else "10 minutes"
    by_minute = {each["Minute"]: each for each in activity["Minutes"]}
    flows = {
        label: [
            by_minute[time][name] if time in by_minute else 0 if time + width > created else None
            for time in times
        ]
        for name, label, _ in _FLOWS
    }
    charts = [
        drawing.chart(f"Messages per {unit}", times, _colours(_FLOWS), flows),
        drawing.chart(
            "Messages in the queue",
            times,
            {"Messages": "sent"},
            {"Messages": _carried(by_minute, times)},
        ),
    ]
    step = PERIODS[minutes][1] * 60 if width == 60 * _MINUTE else width
    starts = range(times[0] // step * step, times[-1] + width, step)
    by_step = {each["Start"]: each for each in activity.get("Steps", [])}
    for measure, title in _MEASURES:
        values = {
            label: [by_step.get(start, {}).get(measure, {}).get(name) for start in starts]
            for name, label, _ in _QUANTILES
        }
        if measure in activity.get("TimeInQueue", {}):
            drawn = drawing.chart(title, starts, _colours(_QUANTILES), values, drawing.TIME)
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
