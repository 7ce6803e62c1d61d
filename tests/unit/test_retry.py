import psycopg
import pytest

from skipmq import errors
from skipmq.database import retry
from skipmq.database.retry import Verdict


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
        (psycopg.DataError(), Verdict.REFUSED, errors.InvalidParameterValueException),
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
