"""Connections of an application's handlers."""

import psycopg
import pytest

from skipmq.client.connections import AsyncConnection, Connections
from support.http import eventually
from support.postgres import Connection
from support.sql import number

_OTHERS = (
    "select count(*) from pg_stat_activity"
    " where datname = current_database() and usename = 'shop' and pid <> pg_backend_pid()"
)


def _end(connection: Connection) -> None:
    connection.execute("select 1")


async def _aend(connection: AsyncConnection) -> None:
    await connection.execute("select 1")


async def test_connection_in_use_at_the_end_is_closed_after_its_transaction(
    shop: str, owner: Connection
) -> None:
    connections = Connections(shop)
    with connections.transaction(_end) as one:
        async with connections.atransaction(_aend) as other:
            await connections.close()
            await other.execute("select 1")
        one.execute("select 1")

    eventually(lambda: number(owner, _OTHERS) == 0, why="both are closed")


async def test_connection_is_left_to_the_next_transaction(shop: str) -> None:
    connections = Connections(shop)
    sessions = set()
    for _ in range(3):
        with connections.transaction(_end) as one:
            sessions.add(one.info.backend_pid)
    await connections.close()

    assert len(sessions) == 1


@pytest.mark.every_server
@pytest.mark.parametrize("databases", ["embedded"], indirect=True)  # It has transaction_timeout.
async def test_connection_whose_opening_fails_is_closed(shop: str, owner: Connection) -> None:
    owner.execute("revoke execute on function set_config from public")

    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        await Connections(shop).connect()

    eventually(lambda: number(owner, _OTHERS) == 0, why="it is closed")
