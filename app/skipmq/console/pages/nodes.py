"""The page of the worker processes of all nodes."""

from statistics import median
from typing import Any

import flask
from flask.typing import ResponseReturnValue

from skipmq.console.visit import current

# A worker is slow if its latency or its loop's lag exceeds this, and this many times the median
# of the others.
SLOW_MILLISECONDS, SLOW_FACTOR = 100, 3
# Seconds without a heartbeat after which a worker does not respond.
SILENT = 20


def add(pages: flask.Blueprint) -> None:
    """Add the view."""
    pages.add_url_rule("/nodes", "nodes", _nodes)


def _nodes() -> ResponseReturnValue:
    result, error = current().read("ListNodes")
    workers = result.get("Workers", [])
    return flask.render_template(
        "nodes.html",
        error=error,
        workers=[each | {"problem": problem(each, workers)} for each in workers],
        this=result.get("ThisProcess"),
        releases={each["Release"] for each in workers},
    )


def problem(worker: dict[str, Any], workers: list[dict[str, Any]]) -> str:
    """Return what is wrong with a worker in comparison with the others, or nothing."""
    if worker["SeenSeconds"] > SILENT:
        return "no heartbeat"
    others = [
        each
        for each in workers
        if each["Process"] != worker["Process"] and each["SeenSeconds"] <= SILENT
    ]
    for member, text in (
        ("LatencyMilliseconds", "slow: p99"),
        ("LoopLagMilliseconds", "slow: loop lag"),
    ):
        own = worker[member] or 0
        usual = median([each[member] or 0 for each in others]) if others else 0
        if own > SLOW_MILLISECONDS and own >= SLOW_FACTOR * usual:
            return text
    return ""
