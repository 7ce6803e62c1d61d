"""What an error of the database means for the statement that met it."""

from enum import Enum, auto

import psycopg
import structlog

from skipmq import errors

log = structlog.get_logger()


class Verdict(Enum):
    """What may be done with a statement that failed."""

    AGAIN = auto()  # Nothing was done, and the next try may succeed at once.
    UNAVAILABLE = auto()  # Nothing was done, and this server does no such thing now.
    UNKNOWN = auto()  # The server went away: it may have been done.
    LOCKED = auto()  # Nothing was done: another transaction has kept a lock for too long.
    REFUSED = auto()  # Nothing was done: the error is the statement's own.


# A plan made before a migration changed a function; a prepared statement that the server forgot, or
# has already: a pooler gave the connection another session.
FORGETFUL = frozenset({"0A000", "26000"})
_STANDING = {
    # A serialization failure and a deadlock.
    "40001": Verdict.AGAIN,
    "40P01": Verdict.AGAIN,
    # A server that was demoted refuses writes; one that starts or stops, or is full, everything.
    "25006": Verdict.UNAVAILABLE,
    "57P03": Verdict.UNAVAILABLE,
    "53300": Verdict.UNAVAILABLE,
    # The server is stopping, or one of its processes crashed: perhaps just after the commit.
    "57P01": Verdict.UNKNOWN,
    "57P02": Verdict.UNKNOWN,
    "55P03": Verdict.LOCKED,
} | dict.fromkeys(FORGETFUL, Verdict.AGAIN)


def classify(sqlstate: str | None, *, broken: bool) -> Verdict:
    """Return what an error means, by its SQLSTATE and whether its connection is broken."""
    if broken:
        return Verdict.UNKNOWN
    return _STANDING.get(sqlstate or "", Verdict.REFUSED)


def translated(error: psycopg.Error, verdict: Verdict) -> Exception:
    """Return the error that the caller of a statement gets which is not tried again."""
    if verdict is Verdict.AGAIN:
        return errors.ServiceUnavailable()
    if verdict is Verdict.LOCKED:
        return errors.Locked()
    known = errors.BY_SQLSTATE.get(error.sqlstate or "")
    if known is not None:
        hint = (error.diag.message_hint,) if issubclass(known, errors.Hindered) else ()
        return known(error.diag.message_primary, *hint)
    if isinstance(error, psycopg.DataError):
        return errors.InvalidParameterValueException("A parameter's value cannot be stored.")
    if isinstance(error, psycopg.OperationalError):
        log.warning("the database refuses", error=" ".join(str(error).split()))
        return errors.ServiceUnavailable()
    return error
