"""The database, its standbys and the nodes, for whoever is paged."""

import re
from typing import Any

import flask
from flask.typing import ResponseReturnValue

from skipmq import errors
from skipmq.console.visit import current

_WORKER, _JANITOR = re.compile(r"skipmq \d+-[0-9a-f]{8}"), "skipmq janitor"
# Seconds: a transaction that is open for longer keeps dead rows that are worth a mark.
LONG_SNAPSHOT = 300
# Of the sessions that there may be: new ones are refused soon.
MANY_SESSIONS = 0.9


def add(pages: flask.Blueprint) -> None:
    """Add the view."""
    pages.add_url_rule("/database", "database", _database)


def _database() -> ResponseReturnValue:
    found, error = current().attempt("DescribeDatabase")
    if error is not None and not isinstance(error, errors.AccessDenied):
        raise error
    numbers: dict[str, dict[str, int]] = {}
    for each in found.get("Numbers", []):
        numbers.setdefault(each["Name"], {})[each["Label"]] = each["Value"]
    return flask.render_template(
        "database.html",
        error=error,
        found=found,
        numbers=numbers,
        programs=_programs(found.get("Programs", [])),
        long_snapshot=LONG_SNAPSHOT,
        many_sessions=MANY_SESSIONS,
    )


def _programs(found: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the programs of SkipMQ by what they are, as far as the names of sessions say it."""
    kinds: dict[str, list[dict[str, Any]]] = {"workers": [], "janitors": [], "others": []}
    for each in found:
        program = each["Program"]
        is_worker = _WORKER.fullmatch(program)
        kind = "workers" if is_worker else "janitors" if program == _JANITOR else "others"
        kinds[kind].append(each)
    return kinds
