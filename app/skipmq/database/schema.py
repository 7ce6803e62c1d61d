"""Which schema the database has, whether this release can work on it, and how to bring it there."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg

from skipmq import files

OLDEST_SERVER, FIRST_UNTRIED_SERVER = 150000, 190000
# Any number that nothing else in the database uses as an advisory lock.
_MIGRATION_LOCK = 0x536B69704D51


class SchemaError(Exception):
    """The database cannot be used as it is; the message says what to do."""


@dataclass(frozen=True, slots=True)
class State:
    """The revision that the database has (None: no SkipMQ in it) and the one of this release."""

    found: str | None
    wanted: str
    server_version: int

    @property
    def is_current(self) -> bool:
        """Return whether the database has just this release's schema."""
        return self.found == self.wanted


def inspect(url: str) -> State:
    """Return the state of the schema.

    Raises psycopg.OperationalError when the database is away.
    """
    with psycopg.connect(url, autocommit=True, connect_timeout=5) as connection:
        exists = connection.execute("select to_regclass('skipmq.alembic_version')").fetchone()
        found = None
        if exists is not None and exists[0] is not None:
            row = connection.execute("select version_num from skipmq.alembic_version").fetchone()
            found = str(row[0]) if row else None
        return State(found, _revisions()[-1], connection.info.server_version)


def check(url: str) -> State:
    """Return the state of a schema that this release can work on.

    A release works on its own schema and on that of the next release's `pre` migration, which only
    adds. Raises SchemaError, with the remedy, on any other.
    """
    state = inspect(url)
    _check_server(state)
    if state.found is None:
        raise SchemaError("the database has no SkipMQ schema: run `skipmq migrate` as its owner")
    if state.is_current:
        return state
    found, wanted = _number(state.found), _number(state.wanted)
    if found < wanted:
        raise SchemaError(
            f"the schema is at {state.found} and this release needs {state.wanted}:"
            " run `skipmq migrate` as its owner"
        )
    if found == wanted + 1 and "_pre" in state.found:
        return state
    raise SchemaError(
        f"the schema is at {state.found}, which this release (made for {state.wanted}) does not"
        " know: install the SkipMQ release that migrated it, or restore the database"
    )


def plan(url: str) -> tuple[State, list[str]]:
    """Return the state of the schema and the migrations that `migrate` would run.

    Raises SchemaError when `migrate` would refuse.
    """
    state = inspect(url)
    _check_server(state)
    if state.found is not None and _number(state.found) > _number(state.wanted):
        return check(url), []
    number = 0 if state.found is None else _number(state.found)
    return state, [revision for revision in _revisions() if _number(revision) > number]


def _check_server(state: State) -> None:
    if state.server_version < OLDEST_SERVER:
        raise SchemaError(
            f"the server is PostgreSQL {state.server_version // 10000}: SkipMQ needs 15 or newer"
        )


def migrate(url: str, told: Callable[[str], None] = lambda _: None) -> State:
    """Bring the schema to this release's revision and grant the roles their rights again.

    It is safe when several do so at once.

    Calls `told` with the name of each migration when it is done. What only an administrator may do
    is left out: ask `rights.missing` afterwards. Raises SchemaError when the server is too old, or
    the schema newer than this release or another role's, psycopg.Error when the database is
    unavailable or refuses.
    """
    state, migrations = plan(url)
    if state.is_current:
        _grant_again(url)
        return state
    if not migrations:
        return state
    # Only here: a node whose schema is in order, and every other command, does without them.
    import sqlalchemy  # noqa: PLC0415
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415
    from sqlalchemy.exc import DBAPIError  # noqa: PLC0415
    from sqlalchemy.pool import NullPool  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(files.folder("migrations")))
    config.set_main_option("path_separator", "os")
    config.attributes["told"] = told
    engine = sqlalchemy.create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(url), poolclass=NullPool
    )
    try:
        with engine.connect() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    except psycopg.errors.InsufficientPrivilege as error:
        raise _refused(error, state) from error
    except DBAPIError as error:
        raise error.orig or error from error
    return inspect(url)


def _refused(error: psycopg.Error, state: State) -> SchemaError:
    remedy = (
        "an administrator runs what `skipmq migrate --print-sql` prints"
        if state.found is None
        else "run `skipmq migrate` as the schema's owner"
    )
    return SchemaError(f"nothing was migrated ({error.diag.message_primary}): {remedy}")


def _grant_again(url: str) -> None:
    try:
        with psycopg.connect(url) as connection:
            lock(connection)
            grant(connection)
    except psycopg.errors.InsufficientPrivilege as error:
        raise SchemaError(
            "the schema is this release's, but only its owner can grant the roles their rights"
            f" ({error.diag.message_primary}): run `skipmq migrate` as its owner"
        ) from error


def lock(connection: psycopg.Connection[Any]) -> None:
    """Take the lock of all migrations for the transaction, which waits 10 s at most for a table.

    Of two nodes that start at once the second waits here and then finds the work done.
    """
    connection.execute("select pg_advisory_xact_lock(%s)", (_MIGRATION_LOCK,))
    connection.execute("set local lock_timeout = '10s'")


def grant(connection: psycopg.Connection[Any]) -> None:
    """Create the roles where the owner may, and grant them just what sql/roles.sql says."""
    connection.execute(files.roles().read_bytes())


def _revisions() -> list[str]:
    """Return all revisions in order: their files are named by them."""
    return sorted(file.stem for file in (files.folder("migrations") / "versions").glob("[0-9]*.py"))


def _number(revision: str) -> int:
    number = revision.split("_", 1)[0]
    return int(number) if number.isdigit() else 1_000_000
