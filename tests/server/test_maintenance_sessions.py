"""Sessions for maintenance: none waits for ever, and what blocks one is named."""

from collections.abc import Iterator

import psycopg
import pytest

from skipmq.database import maintenance, schema
from support.postgres import Databases
from support.sql import number


@pytest.fixture(scope="module")
def url(embedded_databases: Databases) -> Iterator[str]:
    url = embedded_databases.migrated()
    yield url
    embedded_databases.drop(url)


@pytest.mark.parametrize("autocommit", [True, False])
def test_session_has_limits_at_both_ends(url: str, autocommit: bool) -> None:
    with maintenance.connect(url, autocommit=autocommit) as connection:
        assert connection.autocommit is autocommit
        client = connection.info.get_parameters()
        assert (client["keepalives_idle"], client["tcp_user_timeout"]) == ("5", "10000")
        assert number(connection, "show lock_timeout") == "30s"
        assert number(connection, "show idle_in_transaction_session_timeout") == "10min"
        # Of TCP: over a Unix socket their value is 0, and only the source says that they are set.
        told = "select count(*) from pg_settings where name = any (%s) and source = 'client'"
        names = [name for name in maintenance.SETTINGS if name.startswith("tcp")]
        assert number(connection, told, names) == len(names) == 4


@pytest.mark.parametrize(
    "lock",
    ["select from skipmq.cluster for update", "select pg_advisory_xact_lock(77)"],
)
def test_lock_timeout_names_the_session_that_holds_the_lock(
    url: str, monkeypatch: pytest.MonkeyPatch, lock: str
) -> None:
    monkeypatch.setitem(maintenance.SETTINGS, "lock_timeout", "100ms")
    with psycopg.connect(url, application_name="nightly report") as holding:
        holding.execute(lock.encode())
        with maintenance.connect(url) as connection:
            with pytest.raises(maintenance.LockedError) as refused:
                connection.execute(lock.encode())
            pid = holding.info.backend_pid
            for text in (
                f"process {pid} (nightly report, of postgres, idle in transaction)",
                f"end it with `select pg_terminate_backend({pid})`",
            ):
                assert text in str(refused.value)
            assert refused.value.sqlstate == "55P03"


def test_migration_that_waits_for_a_lock_names_its_holder(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(url, application_name="nightly report") as holding:
        holding.execute("lock table skipmq.alembic_version")
        monkeypatch.setitem(maintenance.SETTINGS, "lock_timeout", "100ms")

        with pytest.raises(maintenance.LockedError, match="nightly report"):
            schema.migrate(url)
