"""Statements hand their parameters over, and their results back, as psycopg would."""

import asyncio
import importlib
import json
import pkgutil
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.pq import ExecStatus

from skipmq import broker as store
from skipmq.broker import messages as delivery
from skipmq.database import connection as connections
from skipmq.database.statement import (
    BIGINTS,
    BOOLEAN,
    EPOCH,
    INTEGER,
    INTEGERS,
    INTERVAL,
    JSONB,
    TEXT,
    TEXTS,
    TIME,
    TIMES,
    UUID,
    UUIDS,
    Kind,
    Rows,
    Statement,
)
from skipmq.protocol import errors
from support.loop import eventually
from support.postgres import Connection, Databases

SECONDS = 60.0
# 2026-02-28, a second before midnight.
MOMENT = 1_772_323_199_123_456
ID = "00000000-0000-4000-8000-00000000000a"
OTHER_ID = "f81d4fae-7dec-41d0-a765-00a0c91e6bf6"


@pytest.fixture(scope="module")
def database(databases: Databases) -> Iterator[str]:
    """Give one database to all tests of a server."""
    url = databases.migrated()
    yield url
    databases.drop(url)


class Session:
    """A connection that runs statements with their parameters as they are written."""

    def __init__(self, connection: connections.Connection) -> None:
        self.connection = connection

    async def run(
        self, statement: Statement, values: Sequence[Any] = (), seconds: float = SECONDS
    ) -> Rows:
        return await self.connection.rows(statement, statement.bind(values), seconds)


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Session]:
    connection = await connections.Connection.open(connections.parameters(url, "tests"))
    try:
        yield Session(connection)
    finally:
        connection.close()


def test_statement_has_one_name_in_every_process() -> None:
    shown = "from skipmq.broker.messages.statements import SEND; print(SEND.name.decode())"
    names = {
        subprocess.check_output([sys.executable, "-c", shown], env={"PYTHONHASHSEED": seed})
        for seed in "12"
    }

    assert len(names) == 1
    assert Statement("select 1").name != Statement("select 2").name
    assert Statement("select $1", INTEGER).name != Statement("select $1", TEXT).name


async def test_statement_of_another_client_of_the_session_is_replaced(database: str) -> None:
    statement = Statement("select $1 + 1", INTEGER)
    name = sql.Identifier(statement.name.decode())
    before = sql.SQL("prepare {} (integer) as select 'of another time'").format(name).as_string()
    async with connected(database) as session:
        await session.run(Statement(before))

        # From the second time on it is prepared.
        assert [await session.run(statement, (n,)) for n in range(3)] == [[(1,)], [(2,)], [(3,)]]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        pytest.param(BOOLEAN, True, id="true"),
        pytest.param(BOOLEAN, False, id="false"),
        pytest.param(INTEGER, 0, id="zero"),
        pytest.param(INTEGER, -(2**31), id="least integer"),
        pytest.param(TEXT, "", id="empty text"),
        pytest.param(TEXT, "naïve 😀 'quoted' {\\}", id="text"),
        pytest.param(TIME, MOMENT, id="time"),
        pytest.param(TIME, 0, id="time before 2000"),
        pytest.param(TEXTS, [], id="no texts"),
        pytest.param(TEXTS, ["a", "", None, "é{,}\"\\'", "null"], id="texts"),
        pytest.param(INTEGERS, [], id="no integers"),
        pytest.param(INTEGERS, [1, None, -1, 2**31 - 1], id="integers"),
        pytest.param(BIGINTS, [2**63 - 1, -(2**63), 0, None], id="bigints"),
        pytest.param(TIMES, [], id="no times"),
        pytest.param(TIMES, [MOMENT, 0], id="times"),
        *(
            pytest.param(kind, None, id=f"null {kind.oid}")
            for kind in (
                BOOLEAN, INTEGER, TEXT, JSONB, UUID, TIME, INTERVAL, TEXTS, INTEGERS,
                BIGINTS, TIMES, UUIDS,
            )
        ),
    ],
)  # fmt: skip
async def test_parameter_comes_back_as_it_was(database: str, kind: Kind, value: Any) -> None:
    statement = Statement("select $1", kind)

    async with connected(database) as session:
        # The second time it is prepared.
        assert [await session.run(statement, [value]) for _ in range(3)] == [[(value,)]] * 3


@pytest.mark.parametrize(
    ("kind", "value", "returned"),
    [
        (INTERVAL, 1, timedelta(seconds=1)),
        (INTERVAL, -86399.999993, timedelta(days=-1, microseconds=7)),
        (JSONB, '{"a": [1, "é"]}', json.loads('{"a": [1, "é"]}')),
        (UUID, ID, uuid.UUID(ID)),
        (UUIDS, [], []),
        (UUIDS, [ID, OTHER_ID], [uuid.UUID(ID), uuid.UUID(OTHER_ID)]),
    ],
    ids=["interval", "negative interval", "json", "uuid", "no uuids", "uuids"],
)
async def test_parameter_comes_back_as_what_psycopg_makes_of_it(
    database: str, kind: Kind, value: Any, returned: Any
) -> None:
    async with connected(database) as session:
        assert await session.run(Statement("select $1", kind), [value]) == [(returned,)]


async def test_time_is_in_microseconds_since_1970(database: str) -> None:
    statement = Statement("select (extract(epoch from $1) * 1000000)::bigint, $1", TIME)

    async with connected(database) as session:
        assert await session.run(statement, [MOMENT]) == [(MOMENT, MOMENT)]


async def test_times_since_2000_are_earlier_by_the_epoch_each_time_they_are_asked_for(
    database: str,
) -> None:
    statement = Statement("select $1, 1, null::timestamptz", TIME, since_2000=True)

    async with connected(database) as session:
        found = [await session.run(statement, [MOMENT]) for _ in range(3)]

    assert found == [[(MOMENT - EPOCH, 1, None)]] * 3


@pytest.mark.parametrize("text", ["infinity", "-infinity"])
async def test_time_that_is_infinite_is_beyond_all_others_and_comes_back(
    database: str, text: str
) -> None:
    async with connected(database) as session:
        ((given,),) = await session.run(Statement(f"select timestamptz '{text}'"))
        ((returned,),) = await session.run(Statement("select $1::text", TIME), [given])

    assert abs(given) > 2**62
    assert (given < 0) == (text == "-infinity")
    assert returned == text


async def test_statement_that_gives_no_columns_gives_rows(database: str) -> None:
    statement = Statement("select from generate_series(1, $1)", INTEGER)

    async with connected(database) as session:
        assert await session.run(statement, [3]) == [()] * 3


async def test_statement_gives_what_psycopg_gives_but_for_times(
    database: str, owner: Connection
) -> None:
    text = (
        "select 1::bigint, 'x'::text, null::text, interval '3 s', 2::int, true, '\\x00ff'::bytea,"
        " 1.5::float8, timestamptz '2026-03-01 00:00:00.5+01'"
    )

    async with connected(database) as session:
        ((*given, moment),) = await session.run(Statement(text))

    ((*expected, time),) = owner.execute(sql.SQL(text)).fetchall()
    assert given == expected
    assert [type(value) for value in given] == [
        int, str, type(None), timedelta, int, bool, bytes, float,
    ]  # fmt: skip
    assert datetime.fromtimestamp(moment / 1e6, UTC) == time


@pytest.mark.parametrize(("kind", "value"), [(TEXT, "a\0b"), (TEXTS, ["a\0b"]), (JSONB, '"a\0b"')])
def test_text_with_a_nul_is_refused_before_it_is_sent(kind: Kind, value: Any) -> None:
    with pytest.raises(errors.InvalidParameterValueException):
        Statement("select $1", kind).bind([value])


async def test_error_of_the_server_is_the_one_of_its_sqlstate(database: str) -> None:
    async with connected(database) as session:
        with pytest.raises(psycopg.errors.DivisionByZero) as caught:
            await session.run(Statement("select 1 / $1", INTEGER), [0])

        assert caught.value.diag.message_primary == "division by zero"
        assert await session.run(Statement("select $1", INTEGER), [1]) == [(1,)]


async def test_statement_that_cannot_be_prepared_says_why(database: str) -> None:
    async with connected(database) as session:
        with pytest.raises(psycopg.errors.UndefinedTable):
            await session.run(Statement("select * from no_such_table"))

        assert not session.connection.broken


async def test_plan_that_a_migration_made_stale_is_known_by_its_sqlstate(
    database: str, owner: Connection
) -> None:
    owner.execute("create table stale (a int)")
    statement = Statement("select * from stale")
    async with connected(database) as session:
        for _ in range(2):
            await session.run(statement)
        owner.execute("alter table stale add b int")

        with pytest.raises(psycopg.errors.FeatureNotSupported):
            await session.run(statement)


async def test_result_of_many_rows_and_a_large_parameter_come_whole(database: str) -> None:
    body = "é" * 3_000_000
    statement = Statement("select $1 from generate_series(1, 3)", TEXT)

    async with connected(database) as session:
        assert await session.run(statement, [body]) == [(body,)] * 3


async def test_connection_lost_while_idle_is_known_to_be(database: str, owner: Connection) -> None:
    statement = Statement("select pg_backend_pid()")
    async with connected(database) as session:
        ((process,),) = await session.run(statement)
        owner.execute("select pg_terminate_backend(%s)", (process,))

        await eventually(lambda: session.connection.broken)
        with pytest.raises(psycopg.OperationalError):
            await session.run(statement)


async def test_connection_lost_at_work_is_an_operational_error(
    database: str, owner: Connection
) -> None:
    async with connected(database) as session:
        with pytest.raises(psycopg.OperationalError) as caught:
            await session.run(Statement("select pg_terminate_backend(pg_backend_pid())"))

        assert caught.value.sqlstate == "57P01"
        await eventually(lambda: session.connection.broken)
        assert not session.connection.timed_out
    assert owner.execute("select 1").fetchall() == [(1,)]


async def test_statement_that_takes_too_long_breaks_its_connection_and_goes_on(
    database: str, owner: Connection
) -> None:
    owner.execute("create table late (a int)")
    statement = Statement("insert into late select 1 from pg_advisory_xact_lock(1)")
    owner.execute("select pg_advisory_lock(1)")
    async with connected(database) as session:
        with pytest.raises(psycopg.OperationalError):
            await session.run(statement, seconds=0.1)

        assert session.connection.broken
        assert session.connection.timed_out
    owner.execute("select pg_advisory_unlock(1)")
    # It was not cancelled: a commit that waits for a standby never is.
    await eventually(lambda: owner.execute("select * from late").fetchall())


async def test_statement_whose_caller_is_cancelled_breaks_its_connection(database: str) -> None:
    async with connected(database) as session:
        running = asyncio.create_task(session.run(Statement("select pg_sleep(60)")))
        with psycopg.connect(database, autocommit=True) as other:
            await eventually(
                lambda: other.execute(
                    "select from pg_stat_activity where query like 'select pg_sleep(60)'"
                    " and state = 'active' and datname = current_database()"
                ).fetchall()
            )
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

        assert session.connection.broken
        assert not session.connection.timed_out


def statements() -> list[tuple[str, Statement]]:
    """Return the statements of all modules, by their modules."""
    found = []
    for package in (delivery, store):
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            loaded = importlib.import_module(module.name)
            found += [(module.name, each) for each in vars(loaded).values() if _is_plain(each)]
    return found


def _is_plain(each: object) -> bool:
    """Tell whether it is a statement on the schema itself, not on what ephemeral servers add."""
    return isinstance(each, Statement) and b"skipmq_test" not in each.text


def test_parameters_have_the_types_of_the_functions_that_take_them(owner: Connection) -> None:
    """A narrower integer would be accepted by the server, until a value does not fit."""
    different = []
    for module, statement in statements():
        prepared = owner.pgconn.prepare(b"", statement.text)
        assert prepared.status == ExecStatus.COMMAND_OK, (module, prepared.error_message)
        described = owner.pgconn.describe_prepared(b"")
        wanted = [described.param_type(n) for n in range(described.nparams)]
        if wanted != statement.oids:
            different.append((module, statement.text.decode(), wanted, statement.oids))

    assert len(statements()) > 50
    assert different == []
