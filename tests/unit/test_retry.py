import psycopg
import pytest

from skipmq.database import retry
from skipmq.database.retry import Verdict
from skipmq.protocol import errors


@pytest.mark.parametrize(
    ("sqlstate", "broken", "verdict"),
    [
        # Done by nobody, and likely to succeed at once.
        ("40001", False, Verdict.AGAIN),  # serialization_failure
        ("40P01", False, Verdict.AGAIN),  # deadlock_detected
        ("0A000", False, Verdict.AGAIN),  # cached plan must not change result type
        ("26000", False, Verdict.AGAIN),  # prepared statement does not exist
        # Done by nobody, and not to be done by this server.
        ("25006", False, Verdict.UNAVAILABLE),  # read_only_sql_transaction: it was demoted
        ("57P03", False, Verdict.UNAVAILABLE),  # cannot_connect_now: it starts or stops
        ("53300", False, Verdict.UNAVAILABLE),  # too_many_connections
        # Perhaps done.
        ("57P01", False, Verdict.UNKNOWN),  # admin_shutdown
        ("57P02", False, Verdict.UNKNOWN),  # crash_shutdown
        ("57P01", True, Verdict.UNKNOWN),
        (None, True, Verdict.UNKNOWN),
        # What a broken connection says last does not tell whether its statement was done.
        ("40001", True, Verdict.UNKNOWN),
        ("25006", True, Verdict.UNKNOWN),
        ("SQ001", True, Verdict.UNKNOWN),
        ("55P03", False, Verdict.LOCKED),  # lock_not_available
        # The statement's own.
        ("SQ001", False, Verdict.REFUSED),
        ("23514", False, Verdict.REFUSED),
        ("42501", False, Verdict.REFUSED),  # insufficient_privilege
        ("57014", False, Verdict.REFUSED),  # query_canceled
        ("53100", False, Verdict.REFUSED),  # disk_full
        (None, False, Verdict.REFUSED),
    ],
)
def test_error_means_what_its_sqlstate_and_its_connection_say(
    sqlstate: str | None, broken: bool, verdict: Verdict
) -> None:
    assert retry.classify(sqlstate, broken=broken) is verdict


@pytest.mark.parametrize(
    ("error", "verdict", "kind"),
    [
        (psycopg.errors.DeadlockDetected(), Verdict.AGAIN, errors.ServiceUnavailable),
        (psycopg.errors.LockNotAvailable(), Verdict.LOCKED, errors.Locked),
        (psycopg.errors.CheckViolation(), Verdict.REFUSED, errors.InvalidAttributeValue),
        (
            psycopg.errors.CharacterNotInRepertoire(),
            Verdict.REFUSED,
            errors.InvalidParameterValueException,
        ),
        (psycopg.errors.DiskFull(), Verdict.REFUSED, errors.DiskFull),
        (psycopg.OperationalError(), Verdict.REFUSED, errors.ServiceUnavailable),
        (
            psycopg.errors.InsufficientPrivilege(),
            Verdict.REFUSED,
            errors.InsufficientPrivilege,
        ),
    ],
)
def test_error_that_is_not_tried_again_is_one_of_the_service_where_there_is_one(
    error: psycopg.Error, verdict: Verdict, kind: type[Exception]
) -> None:
    assert type(retry.translated(error, verdict)) is kind


@pytest.mark.parametrize("sqlstate", sorted(errors.BY_SQLSTATE))
def test_error_of_a_function_of_ours_is_refused_and_not_tried_again(sqlstate: str) -> None:
    assert retry.classify(sqlstate, broken=False) is Verdict.REFUSED


UNAVAILABLE, DAMAGED = errors.ServiceUnavailable, errors.DatabaseDamaged
# What the client gets for an error of each class of PostgreSQL's appendix A; None is a fault of our
# own, InternalFailure, whose traceback is logged.
BECOMES: dict[str, type[errors.SqsError] | None] = {
    "08": UNAVAILABLE,
    "0A": UNAVAILABLE,  # A plan of before a migration: tried again.
    "22": errors.InvalidParameterValueException,
    "27": UNAVAILABLE,
    "28": UNAVAILABLE,
    "2F": UNAVAILABLE,
    "38": UNAVAILABLE,
    "39": UNAVAILABLE,
    "3B": UNAVAILABLE,
    "40": UNAVAILABLE,
    "53": UNAVAILABLE,
    "54": UNAVAILABLE,
    "55": UNAVAILABLE,
    "57": UNAVAILABLE,
    "58": UNAVAILABLE,
    "F0": UNAVAILABLE,
    "HV": UNAVAILABLE,
}
SINGLE: dict[str, type[errors.SqsError] | None] = {
    "25006": UNAVAILABLE,
    "23514": errors.InvalidAttributeValue,
    "26000": UNAVAILABLE,
    "42501": errors.InsufficientPrivilege,
    "2200H": errors.NumbersExhausted,
    "53100": errors.DiskFull,
    "55P03": errors.Locked,
    "57014": errors.StatementCancelled,
    "58030": DAMAGED,
    "XX001": DAMAGED,
    "XX002": DAMAGED,
}
# Of class 22 those that a client's value causes.
OF_CLIENTS = {
    *("22001", "22003", "22007", "22008", "22021", "22023", "22024", "22025", "2201B", "22P02"),
    *("22P03", "22P04", "22P05", "22P06", "22030", "22032", "2203G"),
}
SQLSTATES = sorted(
    each.sqlstate
    for each in vars(psycopg.errors).values()
    if isinstance(each, type) and isinstance(getattr(each, "sqlstate", None), str)
)


def expected(sqlstate: str) -> type[errors.SqsError] | None:
    if sqlstate in SINGLE:
        return SINGLE[sqlstate]
    if sqlstate[:2] == "22" and sqlstate not in OF_CLIENTS:
        return None
    return BECOMES.get(sqlstate[:2])


def found(sqlstate: str) -> type[errors.SqsError] | None:
    error = psycopg.errors.lookup(sqlstate)()
    verdict = retry.classify(sqlstate, broken=False)
    if verdict in {Verdict.UNAVAILABLE, Verdict.UNKNOWN}:
        return UNAVAILABLE
    translated = retry.translated(error, verdict)
    return type(translated) if isinstance(translated, errors.SqsError) else None


def test_each_sqlstate_becomes_the_error_of_its_class() -> None:
    assert len(SQLSTATES) > 200
    differences = {
        sqlstate: (found(sqlstate), expected(sqlstate))
        for sqlstate in SQLSTATES
        if found(sqlstate) is not expected(sqlstate)
    }
    assert differences == {}
