"""Classify database errors: whether a statement ran and may be retried."""

from enum import Enum, auto

import psycopg

from skipmq import errors
from skipmq.telemetry.logs import log


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
    # The server is stopping, or one of its processes crashed: perhaps just after the commit.
    "57P01": Verdict.UNKNOWN,
    "57P02": Verdict.UNKNOWN,
    "55P03": Verdict.LOCKED,
} | dict.fromkeys(STALE_SESSION, Verdict.AGAIN)


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
        return kind(error.diag.message_primary, *hint)
    if isinstance(error, psycopg.DataError):
        return errors.InvalidParameterValueException("A parameter's value cannot be stored.")
    if isinstance(error, psycopg.OperationalError):
        log.warning("the database refused a statement", error=" ".join(str(error).split()))
        return errors.ServiceUnavailable()
    return error
