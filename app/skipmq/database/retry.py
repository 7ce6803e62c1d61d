"""Classify database errors, whether a statement ran and may be retried, and note damage."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from time import monotonic

import psycopg

from skipmq.database.statement import TEXT, Rows, Statement
from skipmq.protocol import errors
from skipmq.telemetry.logs import log

_NOTE = Statement("select skipmq.note_damage($1)", TEXT)
# Seconds until the same error of a damaged page is noted again.
_INTERVAL = 10.0
# The driver's errors that others handle.
DatabaseError = psycopg.Error
InsufficientPrivilege = psycopg.errors.InsufficientPrivilege


class Verdict(Enum):
    """What became of a statement that failed."""

    AGAIN = auto()  # Not done; a retry may succeed at once.
    UNAVAILABLE = auto()  # Not done; the server cannot run it for now.
    UNKNOWN = auto()  # The connection broke: it may be done.
    LOCKED = auto()  # Not done: another transaction held a lock too long.
    REFUSED = auto()  # Not done: the statement's own error.


# A cached plan is outdated by a migration; a prepared statement does not exist, because a pooler
# gave the connection another session.
STALE_SESSION = frozenset({"0A000", "26000"})
_STANDING = {
    # A serialization failure and a deadlock.
    "40001": Verdict.AGAIN,
    "40P01": Verdict.AGAIN,
    # A demoted server refuses writes; one that starts, stops or has no slot refuses connections.
    "25006": Verdict.UNAVAILABLE,
    "57P03": Verdict.UNAVAILABLE,
    "53300": Verdict.UNAVAILABLE,
    # The server is stopping, or one of its processes crashed: perhaps just after the commit; or the
    # server does not know itself.
    "57P01": Verdict.UNKNOWN,
    "57P02": Verdict.UNKNOWN,
    "40003": Verdict.UNKNOWN,
    "55P03": Verdict.LOCKED,
} | dict.fromkeys(STALE_SESSION, Verdict.AGAIN)


# Errors of class 22 (data exception) that a client's value causes; all others are of our functions:
# 22003 (out of range), unless it is that of a parameter, 2200H (a sequence's end), 22012 …
_OF_CLIENTS = frozenset({
    *("22001", "22007", "22008", "22021", "22023", "22024", "22025", "2201B", "22P02", "22P03"),
    *("22P04", "22P05", "22P06", "22030", "22032", "2203G"),
})  # fmt: skip
_OUT_OF_RANGE = "22003"


# How PL/Proxy, in a router, begins an error of a partition, and one of its connection to it, whose
# SQLSTATE is then this. Source: PL/Proxy 2.10, src/cluster.c and src/execute.c.
_FROM_ROUTER = re.compile(
    r"(?:PL/Proxy function )?skipmq(?:_router)?\.\w+\(\d+\): \[[^\]]*\] (?:REMOTE [A-Z]+: )?"
)
_CONNECTION_OF_ROUTER = "XX000"
# A router is being made again, as `skipmq partitions add` does: a function that the statement was
# about to call is gone, and there is another in its place. The server never translates this.
_REMADE = re.compile(r"cache lookup failed for function [0-9]+")

# Messages for max_connections, reserved connections, and the limits of a database or role
# (PostgreSQL's src/backend/storage/lmgr/proc.c and src/backend/utils/init/postinit.c).
_NO_SLOT = ("too many clients already", "remaining connection slots", "too many connections for")


def text(error: psycopg.Error) -> str:
    """Return the error text, without what a router adds to one of a partition."""
    return _FROM_ROUTER.sub("", error.diag.message_primary or "", count=1)


def partition_verdict(error: psycopg.Error) -> Verdict | None:
    """Return the verdict for a partition that a router cannot use, or None.

    Other partitions, and the router itself, are not affected. So it is while it is made again.
    """
    if _REMADE.fullmatch(error.diag.message_primary or ""):
        return Verdict.UNKNOWN
    if (found := _FROM_ROUTER.match(error.diag.message_primary or "")) is None:
        return None
    if error.sqlstate == _CONNECTION_OF_ROUTER:
        is_refused = (error.diag.message_primary or "")[found.end() :].startswith("PQconnect")
        return Verdict.UNAVAILABLE if is_refused else Verdict.UNKNOWN
    verdict = classify(error.sqlstate, broken=False)
    return verdict if verdict in {Verdict.UNAVAILABLE, Verdict.UNKNOWN} else None


def classify(sqlstate: str | None, *, broken: bool) -> Verdict:
    """Return the verdict for an SQLSTATE, and for a connection that is broken."""
    if broken:
        return Verdict.UNKNOWN
    return _STANDING.get(sqlstate or "", Verdict.REFUSED)


def translated(error: psycopg.Error, verdict: Verdict) -> Exception:
    """Return the error to raise for a statement that is not retried."""
    if verdict is Verdict.AGAIN:
        return errors.ServiceUnavailable()
    if verdict is Verdict.LOCKED:
        return errors.Locked()
    kind = errors.BY_SQLSTATE.get(error.sqlstate or "")
    if kind is not None:
        hint = (error.diag.message_hint,) if issubclass(kind, errors.NeedsOperator) else ()
        return kind(text(error), *hint)
    if _is_of_client(error):
        return errors.InvalidParameterValueException("A parameter's value cannot be stored.")
    if isinstance(error, psycopg.OperationalError):
        log.warning("the database refused a statement", error=" ".join(str(error).split()))
        return errors.ServiceUnavailable()
    return error


def _is_of_client(error: psycopg.Error) -> bool:
    if error.sqlstate == _OUT_OF_RANGE:
        # The context of a parameter's error names no function.
        return "skipmq." not in (error.diag.context or "")
    return error.sqlstate in _OF_CLIENTS


def is_read_only(error: Exception | None) -> bool:
    """Return whether an error means that a server is reachable and read-only."""
    # With several servers libpq gives only a text (PostgreSQL manual, 34.1.2 target_session_attrs).
    return isinstance(error, psycopg.errors.ReadOnlySqlTransaction) or (
        isinstance(error, psycopg.OperationalError) and "session is read-only" in str(error)
    )


def has_no_slot(error: Exception) -> bool:
    """Return whether an error means that a server has no connection left for this role.

    libpq gives only the server's text for a refused connection, and no SQLSTATE; in a language
    other than English the error counts as an unreachable server.
    """
    return isinstance(error, psycopg.errors.TooManyConnections) or (
        isinstance(error, psycopg.OperationalError) and any(text in str(error) for text in _NO_SLOT)
    )


class DamageNotes:
    """Notes of the damaged pages that a pool meets; for one loop."""

    def __init__(self, rows: Callable[..., Awaitable[Rows]]) -> None:
        self._rows = rows
        # PostgreSQL's error, and when it was noted, a time of time.monotonic.
        self._last: tuple[str | None, float] = (None, 0.0)
        self._tasks: set[asyncio.Task[None]] = set()

    def note(self, error: str | None) -> None:
        """Note PostgreSQL's error, soon, unless it has just been noted."""
        last, at = self._last
        if error is None or (error == last and monotonic() - at < _INTERVAL):
            return
        self._last = (error, monotonic())
        task = asyncio.get_running_loop().create_task(self._note(error))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _note(self, error: str) -> None:
        log.error("a page of the database is damaged", error=error)
        try:
            await self._rows(_NOTE, (error,))
        except (errors.SqsError, psycopg.Error) as failure:
            log.warning("cannot note the damage", error=" ".join(str(failure).split()))
