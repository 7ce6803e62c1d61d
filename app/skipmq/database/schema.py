"""Check the database's schema against this release, and migrate it."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg

from skipmq.database import address, files, maintenance, pooler, rights
from skipmq.database.connection import parameters
from skipmq.database.partitions import partition_urls
from skipmq.database.session import one
from skipmq.telemetry.logs import log

OLDEST_SERVER, FIRST_UNTESTED_SERVER = 150000, 190000
NEWEST_TESTED = FIRST_UNTESTED_SERVER // 10000 - 1
# An advisory lock: "SkipMQ" in ASCII.
_MIGRATION_LOCK = 0x536B69704D51

# What migrations/env.py and Alembic run first.
_VERSION_TABLE = """\
set local check_function_bodies = off;
create schema if not exists skipmq;
create table if not exists skipmq.alembic_version (
  version_num varchar(32) not null constraint alembic_version_pkc primary key
);
insert into skipmq.alembic_version (version_num) values ('{}');
"""
_RENEW = """
update skipmq.cluster set created_at = clock_timestamp();
update skipmq.receipt_key set made_at = clock_timestamp(),
  key = decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex');
select skipmq.create_history_partitions();
"""


class SchemaError(Exception):
    """A schema that this release cannot use; the message has the remedy."""


@dataclass(frozen=True, slots=True)
class State:
    """The database's revision (None: SkipMQ is not installed) and this release's."""

    found: str | None
    required: str
    server_version: int
    # The database's encoding, as PostgreSQL names it.
    encoding: str
    # Whether a connection pooler stands in front of the server.
    has_pooler: bool = False

    @property
    def is_current(self) -> bool:
        """Return whether the database has this release's schema."""
        return self.found == self.required

    @property
    def is_untested(self) -> bool:
        """Return whether the server is newer than all that this release was tested with."""
        return self.server_version >= FIRST_UNTESTED_SERVER


def inspect(url: str) -> State:
    """Return the state of the schema.

    Raises psycopg.OperationalError when the database is unavailable.
    """
    with maintenance.connect(url) as connection:
        return _state(connection)


def _state(connection: psycopg.Connection[Any]) -> State:
    found = _found(connection)
    info = connection.info
    (pid,) = one(connection, "select pg_backend_pid()")
    has_pooler = pid != info.backend_pid
    encoding = info.parameter_status("server_encoding") or "UTF8"
    return State(found, _revisions()[-1], info.server_version, encoding, has_pooler)


def _found(connection: psycopg.Connection[Any]) -> str | None:
    """Return the database's revision."""
    (table,) = one(connection, "select to_regclass('skipmq.alembic_version')")
    if table is None:
        return None
    row = connection.execute("select version_num from skipmq.alembic_version").fetchone()
    return str(row[0]) if row else None


def is_router(url: str) -> bool:
    """Return whether the database routes to partitions, and has no tables of its own.

    Raises psycopg.OperationalError when the database is unavailable.
    """
    with maintenance.connect(url) as connection:
        (table,) = one(connection, "select to_regclass('skipmq_router.map')")
    return table is not None


def check(url: str) -> State:
    """Return the state of the schema if this release can use it.

    A release uses its own schema and that of the next release's `pre` migration, which only adds.
    Raises SchemaError for any other, and where a pooler shares sessions.
    """
    return _checked(url, inspect(url))


def _checked(url: str, state: State) -> State:
    check_server(state)
    check_sessions(url, state)
    if state.found is None:
        raise SchemaError("the database has no SkipMQ schema: run `skipmq migrate` as its owner")
    if state.is_current:
        return state
    found, required = _number(state.found), _number(state.required)
    if found < required:
        raise SchemaError(
            f"the schema is at {state.found} and this release needs {state.required}:"
            " run `skipmq migrate` as its owner"
        )
    if found == required + 1 and "_pre" in state.found:
        return state
    raise SchemaError(
        f"the schema is at {state.found} and this release supports {state.required} only:"
        " install the SkipMQ release that migrated it, or restore the database"
    )


def check_for_node(url: str, *, warns: bool = False) -> None:
    """Check the schema, and that the partitions of a router are those of its map.

    Otherwise a statement on a queue would go astray. With `warns` log the rights that roles have
    beyond those that SkipMQ gives. A partition that is unavailable is left out. Raises SchemaError,
    and psycopg.OperationalError when the database is unavailable.
    """
    # Each on one connection: to open one costs more than to ask.
    with maintenance.connect(url) as connection:
        _checked(url, _state(connection))
        router = _map(connection)
        found = rights.surplus_on(connection) if warns else []
    for number, partition in enumerate(partition_urls(url, router[2])):
        with (
            suppress(psycopg.OperationalError),
            maintenance.connect(partition, connect_timeout=2) as connection,
        ):
            _check_partition(number, _map(connection), router[1])
            found += rights.surplus_on(connection) if warns else []
    for right in found:
        log.warning(
            "a right that SkipMQ does not give; `skipmq migrate` revokes it",
            right=right.what,
            consequence=right.loss,
            statement=right.statement,
        )


def _check_partition(
    number: int, found: tuple[int | None, UUID | None, list[str]], router: UUID | None
) -> None:
    if found[:2] != (number, router):
        what = "another map" if found[1] != router else f"partition {found[0]}"
        raise SchemaError(
            f"partition {number} of the router is {what}: see `skipmq partitions doctor`"
        )


def partitions(url: str) -> list[str]:
    """Return the addresses of a router's partitions; none where the database is no router.

    Raises psycopg.OperationalError when it is unavailable.
    """
    with maintenance.connect(url) as connection:
        return partition_urls(url, _map(connection)[2])


def _map(connection: psycopg.Connection[Any]) -> tuple[int | None, UUID | None, list[str]]:
    """Return the number, the map and the addresses of a database, as partition_map has them."""
    query = "select partition, map_id, addresses from skipmq.partition_map()"
    number, map_id, addresses = one(connection, query)
    return number, map_id, addresses


def check_sessions(url: str, state: State) -> None:
    """Raise SchemaError if a pooler shares sessions or rejects their options.

    Raises psycopg.OperationalError when the database is unavailable.
    """

    async def check_both() -> None:
        await pooler.check(address.parameters(url))
        await pooler.check_options(parameters(url, "skipmq"))

    if state.has_pooler:
        try:
            asyncio.run(check_both())
        except pooler.PoolerError as error:
            raise SchemaError(str(error)) from error


def vacuum_seconds(url: str) -> int | None:
    """Return autovacuum_naptime in seconds, or None if autovacuum is off."""
    with maintenance.connect(url) as connection:
        is_on, seconds = one(
            connection,
            "select current_setting('autovacuum')::boolean,"
            " extract(epoch from current_setting('autovacuum_naptime')::interval)::integer",
        )
    return seconds if is_on else None


def plan(url: str) -> tuple[State, list[str]]:
    """Return the state of the schema and the migrations that `migrate` would run.

    Raises SchemaError when `migrate` would raise it.
    """
    state = inspect(url)
    check_server(state)
    if state.found is not None and _number(state.found) > _number(state.required):
        return check(url), []
    number = 0 if state.found is None else _number(state.found)
    return state, [revision for revision in _revisions() if _number(revision) > number]


def check_server(state: State) -> None:
    """Raise SchemaError for a server that is too old, and a database that is not in UTF-8.

    Logs a server that is newer than those that SkipMQ is tested with.
    """
    if state.server_version < OLDEST_SERVER:
        raise SchemaError(
            f"the server is PostgreSQL {state.server_version // 10000}: SkipMQ needs 15 or newer"
        )
    if state.encoding != "UTF8":
        raise SchemaError(
            f"the database's encoding is {state.encoding}, which cannot store every message: create"
            " one with `create database … template template0 encoding 'UTF8'`"
        )
    if state.is_untested:
        log.warning(
            "the server is newer than those that SkipMQ is tested with",
            server=state.server_version // 10000,
            newest_tested=NEWEST_TESTED,
        )


def migrate(url: str, on_migrated: Callable[[str], None] = lambda _: None) -> State:
    """Migrate the schema to this release's revision and grant the roles their rights again.

    Safe to run concurrently. Calls `on_migrated` with the name of each finished migration. Skips
    what needs an administrator; `rights.missing` lists it. Raises SchemaError when the server is
    too old, the schema newer than this release or another role's, and psycopg.Error.
    """
    if is_router(url):
        raise SchemaError("this database is a router: run `skipmq partitions init`, which migrates")
    state, migrations = plan(url)
    if state.is_current:
        _grant_again(url)
        return state
    if not migrations:
        return state
    try:
        if state.found is None and _install(url, state.required):
            for migration in migrations:
                on_migrated(migration)
        else:
            upgrade(url, on_migrated)
    except psycopg.errors.InsufficientPrivilege as error:
        raise _refused(error, state) from error
    return inspect(url)


def renewed(url: str) -> bool:
    """Make a current database that is a copy of another one its own; return whether it is current.

    Receipt handles of the other are invalid in it.
    """
    with maintenance.connect(url) as connection:
        if _found(connection) != _revisions()[-1]:
            return False
        connection.execute(_RENEW)
    return True


def _install(url: str, revision: str) -> bool:
    """Install the schema from sql/ in an empty database; return whether the database was empty.

    The result equals that of the migrations, without the time that Alembic takes to import.
    """
    with maintenance.connect(url, autocommit=False) as connection:
        lock(connection)
        if _found(connection) is not None:
            return False
        sql = [_VERSION_TABLE.format(revision).encode()]
        sql += [file.read_bytes() for file in files.sql_in_order()]
        connection.execute(b"".join(sql))
        rights.revoke_surplus(connection)
    return True


def upgrade(url: str, on_migrated: Callable[[str], None] = lambda _: None) -> None:
    """Run the pending migrations, as `migrate` does."""
    # Imported here, since only this function needs them and they are slow to import.
    import sqlalchemy  # noqa: PLC0415
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415
    from sqlalchemy.exc import DBAPIError  # noqa: PLC0415
    from sqlalchemy.pool import NullPool  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(files.folder("migrations")))
    config.set_main_option("path_separator", "os")
    config.attributes["on_migrated"] = on_migrated
    engine = sqlalchemy.create_engine(
        "postgresql+psycopg://",
        creator=lambda: maintenance.connect(url, autocommit=False),
        poolclass=NullPool,
    )
    try:
        with engine.connect() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    except DBAPIError as error:
        raise error.orig or error from error


def _refused(error: psycopg.Error, state: State) -> SchemaError:
    remedy = (
        "an administrator runs what `skipmq migrate --print-sql` prints"
        if state.found is None
        else "run `skipmq migrate` as the schema's owner"
    )
    return SchemaError(f"nothing was migrated ({error.diag.message_primary}): {remedy}")


def _grant_again(url: str) -> None:
    try:
        with maintenance.connect(url, autocommit=False) as connection:
            lock(connection)
            grant(connection)
    except psycopg.errors.InsufficientPrivilege as error:
        raise SchemaError(
            "the schema is current, but only its owner can grant the roles their rights"
            f" ({error.diag.message_primary}): run `skipmq migrate` as its owner"
        ) from error


def lock(connection: psycopg.Connection[Any]) -> None:
    """Take the migration lock for the transaction, and set its lock_timeout to 10 s.

    Of two nodes that start at once the second waits here and then finds the schema current.
    """
    connection.execute("set local lock_timeout = '10min'")
    connection.execute("select pg_advisory_xact_lock(%s)", (_MIGRATION_LOCK,))
    connection.execute("set local lock_timeout = '10s'")


def grant(connection: psycopg.Connection[Any]) -> None:
    """Create the roles, if the owner may, and give them the rights in sql/roles.sql, and no others.

    The functions get their planner settings, which some may have lost.
    Raises psycopg.errors.InsufficientPrivilege where another role owns the schema.
    """
    connection.execute(files.planner().read_bytes())
    connection.execute(files.roles().read_bytes())
    rights.revoke_surplus(connection)


def _revisions() -> list[str]:
    """Return all revisions in order, from the names of their files."""
    return sorted(file.stem for file in (files.folder("migrations") / "versions").glob("[0-9]*.py"))


def _number(revision: str) -> int:
    number = revision.split("_", 1)[0]
    return int(number) if number.isdigit() else 1_000_000
