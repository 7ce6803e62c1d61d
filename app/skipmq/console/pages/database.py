"""The pages of the database and of the worker processes of all nodes, for operators."""

import re
from statistics import median
from typing import Any

import flask
from flask.typing import ResponseReturnValue

from skipmq.actions.skipmq.database import may_end, may_list
from skipmq.actions.skipmq.server_troubles import SLOW_FACTOR
from skipmq.broker.trouble_kinds import SILENT_SECONDS, bound
from skipmq.console import site
from skipmq.console.visit import current
from skipmq.protocol import errors

_WORKER, _JANITOR = re.compile(r"skipmq \d+-[0-9a-f]{8}"), "skipmq janitor"
# A worker is slow if its latency or its loop's lag exceeds this, and is SLOW_FACTOR times the
# median of the others that had requests.
SLOW_MILLISECONDS = 100


def add(pages: flask.Blueprint) -> None:
    pages.add_url_rule("/database", "database", _database)
    pages.add_url_rule("/database/sessions", "sessions", _sessions)
    pages.add_url_rule("/database/sessions", "end_session", _end_session, methods=["POST"])
    pages.add_url_rule("/nodes", "nodes", _nodes)


def _database() -> ResponseReturnValue:
    database, error = current().read("DescribeDatabase")
    partitions = [_prepared(each) for each in database.get("Partitions", [])]
    number = flask.request.args.get("partition", 0, int)
    is_listed = not error and may_list(current().broker.node, current().identity)
    found = current().attempt("ListSessions", Partition=number)[0] if is_listed else {}
    return flask.render_template(
        "database.html",
        error=error,
        database=database,
        partitions=partitions,
        chosen=partitions[number if 0 <= number < len(partitions) else 0]
        if partitions
        else _prepared(database),
        locks=[
            each
            for each in _with_blocked(found.get("Sessions", []))
            if each["BlockedBy"] or each["blocks"]
        ],
        long_snapshot=bound("snapshot"),
        session_warning=bound("sessions"),
    )


def _with_blocked(listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add the processes that each session blocks."""
    return [
        each | {"blocks": [o["ProcessId"] for o in listed if each["ProcessId"] in o["BlockedBy"]]}
        for each in listed
    ]


def _sessions(failed: errors.SqsError | None = None) -> ResponseReturnValue:
    partition = flask.request.values.get("partition", 0, int)
    result, error = current().read("ListSessions", Partition=partition)
    page = flask.render_template(
        "sessions.html",
        sessions=_with_blocked(result.get("Sessions", [])),
        partition=partition,
        may=current().may("EndSession") and may_end(current().broker.node, current().identity),
        is_signed=current().identity.key_id is not None,
        error=error,
        failed=failed,
    )
    return page, 200 if failed is None else failed.status


@site.showing_errors(_sessions)
def _end_session() -> ResponseReturnValue:
    form = flask.request.form
    kind, process = form.get("kind", ""), form.get("process", 0, int)
    partition = form.get("partition", 0, int)
    current().act(
        "EndSession",
        ProcessId=process,
        Kind=kind,
        StartedMicroseconds=form.get("started", type=int),
        Partition=partition,
    )
    done = "Cancelled the statement of" if kind == "cancel" else "Terminated"
    site.notice(f"{done} session {process}.")
    return site.see("sessions", partition=partition or None)


def _prepared(database: dict[str, Any]) -> dict[str, Any]:
    """Add the statistics by name and label, and the programs by kind."""
    statistics: dict[str, dict[str, int]] = {}
    for each in database.get("Numbers", []):
        statistics.setdefault(each["Name"], {})[each["Label"]] = each["Value"]
    programs = _programs(database.get("Programs", []))
    return database | {"statistics": statistics, "programs": programs}


def _programs(programs: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Group SkipMQ's programs into workers, janitors and others, by the names of sessions.

    Those of other databases are others.
    """
    kinds: dict[str, list[dict[str, Any]]] = {"workers": [], "janitors": [], "others": []}
    for each in programs:
        program = each["Program"]
        is_worker = _WORKER.fullmatch(program)
        kind = "workers" if is_worker else "janitors" if program == _JANITOR else "others"
        if not each["IsInThisDatabase"]:
            kind = "others"
        kinds[kind].append(each)
    return kinds


def _nodes() -> ResponseReturnValue:
    result, error = current().read("ListNodes")
    workers = result.get("Workers", [])
    return flask.render_template(
        "nodes.html",
        may_list=current().may_list(),
        error=error,
        workers=[
            each | {"problem": problem(each, workers), "is_used": has_requests(each)}
            for each in workers
        ],
        this=result.get("ThisProcess"),
        releases={each["Release"] for each in workers},
    )


def has_requests(worker: dict[str, Any]) -> bool:
    """Return whether a worker had requests in the last minute, which its latency is that of."""
    return worker["LatencyMilliseconds"] is not None and worker["RequestsPerSecond"] != 0


def problem(worker: dict[str, Any], workers: list[dict[str, Any]]) -> str:
    """Return what is wrong with a worker in comparison with the others, or nothing."""
    if worker["SeenSeconds"] >= SILENT_SECONDS:
        return "no heartbeat"
    others = [
        each
        for each in workers
        if each["Process"] != worker["Process"]
        and each["SeenSeconds"] < SILENT_SECONDS
        and has_requests(each)
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
