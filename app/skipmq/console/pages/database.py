"""The page of the database and its standbys, for operators."""

import re
from typing import Any

import flask
from flask.typing import ResponseReturnValue

from skipmq.console.visit import current

_WORKER, _JANITOR = re.compile(r"skipmq \d+-[0-9a-f]{8}"), "skipmq janitor"
# The age in seconds from which a snapshot is highlighted.
LONG_SNAPSHOT = 300
# The share of max_connections from which the number of sessions is highlighted.
SESSION_WARNING = 0.9


def add(pages: flask.Blueprint) -> None:
    """Add the view."""
    pages.add_url_rule("/database", "database", _database)


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
        long_snapshot=LONG_SNAPSHOT,
        session_warning=SESSION_WARNING,
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
