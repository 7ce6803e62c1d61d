"""A server that ends a session says why and resets the socket: both reach whoever waits."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeAlias

import psycopg
import pytest
import uvloop

from skipmq.database import connection as connections
from skipmq.database.connection import Connection
from skipmq.database.statement import INTEGER, Search, Statement
from support.http import eventually
from support.postgres import Databases
from support.trees import frozen

Run: TypeAlias = Callable[[Coroutine[Any, Any, Any]], Any]
SECONDS = 30.0
# More than any of it takes, less than SECONDS.
PATIENCE = 15.0
BACKEND = Statement("select pg_backend_pid()")
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "uvloop": uvloop.new_event_loop,
    "asyncio": asyncio.new_event_loop,
}


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Give what runs a coroutine on each loop that a node may have."""
    with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
        yield lambda coroutine: runner.run(_within_patience(coroutine))


async def _within_patience(coroutine: Coroutine[Any, Any, Any]) -> Any:
    async with asyncio.timeout(PATIENCE):
        return await coroutine


def test_end_of_a_session_with_an_unread_statement_is_seen(run: Run, databases: Databases) -> None:
    """Whatever the socket: its kernel resets it, since there is something that nobody read."""

    async def lose() -> tuple[psycopg.Error, bool]:
        connection = await Connection.open(connections.parameters(databases.server.url, "test"))
        ((backend,),) = await connection.rows(BACKEND, (), SECONDS)
        with frozen(backend):
            asked = asyncio.ensure_future(connection.rows(BACKEND, (), SECONDS))
            await asyncio.sleep(0.05)
            os.kill(backend, signal.SIGTERM)
        with pytest.raises(psycopg.Error) as caught:
            await asked
        connection.close()
        return caught.value, connection.broken

    error, broken = run(lose())

    assert error.sqlstate == "57P01"
    assert broken


def test_a_server_that_does_not_answer_is_left_in_time(run: Run, databases: Databases) -> None:
    async def wait() -> tuple[psycopg.Error, bool, bool]:
        connection = await Connection.open(connections.parameters(databases.server.url, "test"))
        sleep = Statement("select pg_sleep($1)", INTEGER)
        with pytest.raises(psycopg.OperationalError) as caught:
            await connection.rows(sleep, sleep.bind((60,)), 0.2)
        connection.close()
        return caught.value, connection.broken, connection.timed_out

    error, broken, timed_out = run(wait())

    assert str(error) == "the server did not answer within 0.2 s"
    assert broken
    assert timed_out


def test_a_search_that_took_too_long_is_cancelled(run: Run, databases: Databases) -> None:
    """A server does not look whether there is still somebody to read what it computes."""

    async def cancel() -> int:
        connection = await Connection.open(connections.parameters(databases.server.url, "test"))
        ((backend,),) = await connection.rows(BACKEND, (), SECONDS)
        sleep = Search("select pg_sleep($1)", INTEGER)
        with pytest.raises(psycopg.OperationalError):
            await connection.rows(sleep, sleep.bind((60,)), 0.2)
        await connection.cancel()
        return int(backend)

    backend = run(cancel())

    with psycopg.connect(databases.server.url, autocommit=True) as watcher:
        there = "select count(*) from pg_stat_activity where pid = %s"
        eventually(lambda: watcher.execute(there, (backend,)).fetchone() == (0,), PATIENCE)
