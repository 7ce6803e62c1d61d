"""The pages of the database and of the worker processes of all nodes, for operators."""

import re
from statistics import median
from typing import Any

import flask
from flask.typing import ResponseReturnValue

from skipmq.actions.skipmq.server_troubles import SLOW_FACTOR
from skipmq.broker.trouble_kinds import SILENT_SECONDS, bound
from skipmq.console.visit import current

_WORKER, _JANITOR = re.compile(r"skipmq \d+-[0-9a-f]{8}"), "skipmq janitor"
# A worker is slow if its latency or its loop's lag exceeds this, and is SLOW_FACTOR times the
# median of the others that had requests.
SLOW_MILLISECONDS = 100


def add(pages: flask.Blueprint) -> None:
    """Add the views."""
    pages.add_url_rule("/database", "database", _database)
    pages.add_url_rule("/nodes", "nodes", _nodes)


def _database() -> ResponseReturnValue:
    database, error = current().read("DescribeDatabase")
    partitions = [_prepared(each) for each in database.get("Partitions", [])]
    number = flask.request.args.get("partition", 0, int)
    return flask.render_template(
        "database.html",
        error=error,
        database=database,
        partitions=partitions,
        chosen=partitions[number if 0 <= number < len(partitions) else 0]
        if partitions
        else _prepared(database),
        long_snapshot=bound("snapshot"),
        session_warning=bound("sessions"),
    )


def _prepared(database: dict[str, Any]) -> dict[str, Any]:
    """Add the statistics by name and label, and the programs by kind."""
    statistics: dict[str, dict[str, int]] = {}
    for each in database.get("Numbers", []):
        statistics.setdefault(each["Name"], {})[each["Label"]] = each["Value"]
    programs = _programs(database.get("Programs", []))
    return database | {"statistics": statistics, "programs": programs}


def _programs(programs: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Group SkipMQ's programs into workers, janitors and others, by the names of sessions."""
    kinds: dict[str, list[dict[str, Any]]] = {"workers": [], "janitors": [], "others": []}
    for each in programs:
        program = each["Program"]
        is_worker = _WORKER.fullmatch(program)
        kind = "workers" if is_worker else "janitors" if program == _JANITOR else "others"
        kinds[kind].append(each)
    return kinds


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
    if worker["SeenSeconds"] >= SILENT_SECONDS:
        return "no heartbeat"
    others = [
        each
        for each in workers
        if each["Process"] != worker["Process"]
        and each["SeenSeconds"] < SILENT_SECONDS
        and each["LatencyMilliseconds"] is not None
    ]
    for member, text in (
        ("LatencyMilliseconds", "slow: p99"),
        ("LoopLagMilliseconds", "slow: loop lag"),
    ):
        own = worker[member] or 0
        usual = median([each[member] or 0 for each in others]) if others else own
        if own > SLOW_MILLISECONDS and own >= SLOW_FACTOR * usual:
            return text
    return ""
