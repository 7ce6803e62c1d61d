"""The page of troubles, totals and activity, and the menu of accounts and regions of each page."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import flask
from flask.typing import ResponseReturnValue

from skipmq.console import drawing
from skipmq.console.pages import marks
from skipmq.console.visit import current
from skipmq.protocol.errors import LEGACY

# The number of troubles on the page; the others are counted.
_SHOWN = 12
_LIMIT = 100
# Lengths of the charts in minutes.
PERIODS = (60, 360)
_FLOWS = {"Sent": "sent", "Received": "received", "Deleted": "deleted"}
_DURATIONS = {"p50": "deleted", "p99": "dead"}
# The codes with a line of their own: the most frequent ones.
_CODES = ("dead", "received", "expired", "sent")
_OTHERS = "Others"
_MARKS = 12
Step = Mapping[str, Any]


def add(pages: flask.Blueprint) -> None:
    pages.add_url_rule("/", "overview", _overview)
    pages.add_url_rule("/places", "places", _places)


def _overview() -> ResponseReturnValue:
    requested = flask.request.args.get("minutes", PERIODS[-1], int)
    minutes = requested if requested in PERIODS else PERIODS[-1]
    # The charts are refreshed by themselves, and less often.
    is_brief = flask.request.headers.get("HX-Trigger") == "overview"
    overview, error = current().read(
        "GetOverview",
        MaxResults=_SHOWN,
        Minutes=None if is_brief else minutes,
        Everywhere=True,
        Folded=True,
    )
    if flask.request.headers.get("HX-Trigger") == "picture" and "Activity" not in overview:
        return "", 204  # What is drawn stays.
    troubles = overview.get("Troubles", [])
    return flask.render_template(
        "overview.html",
        error=error,
        troubles=troubles,
        more=overview.get("Found", 0) - len(troubles),
        totals=overview.get("Totals"),
        database=overview.get("Database"),
        nodes=overview.get("Nodes"),
        unknown=overview.get("Unknown"),
        is_brief=is_brief,
        minutes=minutes,
        periods=PERIODS,
        **_picture(overview.get("Activity"), minutes, may_describe="Database" in overview),
    )


def _picture(
    activity: Mapping[str, Any] | None, minutes: int, *, may_describe: bool
) -> dict[str, Any]:
    """Return the charts of the last minutes, what they mark, and when the record begins."""
    if activity is None:
        return {"charts": [], "events": []}
    step = activity["StepMinutes"] * 60
    end = activity["Clock"] // step * step
    times = range(end + step - minutes * 60, end + step, step)
    by_time = {each["Start"]: each for each in activity["Steps"]}
    steps = [by_time.get(time, {}) for time in times]
    events = drawing.placed(marks.broker_events(activity, times[0]), times)
    first = min(by_time, default=None)
    return {
        "charts": _queue_charts(times, steps)
        + (_request_charts(times, steps) if may_describe else []),
        "events": events,
        "listed": events[-_MARKS:],
        "first": first if first is not None and first > times[0] else None,
    }


def _queue_charts(times: range, steps: Sequence[Step]) -> list[drawing.Chart]:
    """Return the charts of messages, if their activity may be read."""
    if not any("Messages" in step for step in steps):
        return []
    flows = {name: _counted(steps, partial(_member, name)) for name in _FLOWS}
    waiting: list[int | None] = []
    for step in steps:
        waiting.append(step.get("Messages", waiting[-1] if waiting else None))
    return [
        drawing.chart(f"Messages per {_unit(times)}", times, _FLOWS, flows),
        drawing.chart("Messages in all queues", times, {"Messages": "sent"}, {"Messages": waiting}),
    ]


def _request_charts(times: range, steps: Sequence[Step]) -> list[drawing.Chart]:
    """Return the charts of requests to all nodes: their errors by code, and their durations."""
    total: Counter[str] = Counter()
    for step in steps:
        total.update(step.get("Errors", {}))
    codes = [code for code, _ in total.most_common(len(_CODES))]
    errors = {code.removeprefix(LEGACY): _counted(steps, partial(_error, code)) for code in codes}
    others = sorted(set(total) - set(codes))
    if others or not codes:
        errors[_OTHERS if codes else "Errors"] = _counted(
            steps, lambda step: sum(_error(code, step) for code in others)
        )
    colours = dict(zip(errors, (*_CODES, "deleted"), strict=False))
    durations = {
        name: [
            None
            if (value := step.get(f"{name.upper()}Milliseconds")) is None
            else int(1000 * value)
            for step in steps
        ]
        for name in _DURATIONS
    }
    by_code = drawing.chart(
        f"Errors and refusals per {_unit(times)}, by code", times, colours, errors
    )
    by_code.key = "errors"
    return [
        by_code,
        drawing.chart("Duration of requests", times, _DURATIONS, durations, drawing.TIME),
    ]


def _counted(steps: Sequence[Step], number: Callable[[Step], int]) -> list[int | None]:
    """Return a number of each step; None for those before the record begins."""
    began = next((place for place, step in enumerate(steps) if step), len(steps))
    return [None if place < began else number(step) for place, step in enumerate(steps)]


def _member(name: str, step: Step) -> int:
    return int(step.get(name, 0))


def _error(code: str, step: Step) -> int:
    return int(step.get("Errors", {}).get(code, 0))


def _unit(times: range) -> str:
    minutes = times.step // 60
    return "minute" if minutes == 1 else f"{minutes} minutes"


def _places() -> ResponseReturnValue:
    places = current().places(_LIMIT)
    return flask.render_template("places.html", places=places, has_more=len(places) == _LIMIT)
