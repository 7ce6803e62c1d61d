"""The port through which Java reaches a server on a Unix socket."""

import os
import pwd
import socket
from collections.abc import Iterator
from contextlib import suppress
from struct import pack

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from skipmq.analytics.spark.socket_proxy import proxied
from skipmq.database import embedded
from support.http import eventually


@pytest.fixture
def port(database: str) -> Iterator[tuple[int, str]]:
    """Give the port of a proxy to the test's server, and its password."""
    given = conninfo_to_dict(database)
    with proxied(f"{given['host']}/.s.PGSQL.{given['port']}") as found:
        yield found


def through(database: str, port: int, **others: str) -> str:
    """Return the URL of the test's database through the proxy."""
    return make_conninfo(database, host="127.0.0.1", port=port, connect_timeout=10, **others)


def test_client_with_the_password_reaches_the_server(database: str, port: tuple[int, str]) -> None:
    number, password = port

    with psycopg.connect(through(database, number, password=password)) as connection:
        row = connection.execute("select current_database(), inet_server_addr()").fetchone()

    assert row == (conninfo_to_dict(database)["dbname"], None)


@pytest.mark.parametrize("password", ["", "wrong", "x" * 9000])
def test_client_without_the_password_is_refused(
    database: str, port: tuple[int, str], password: str
) -> None:
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(through(database, port[0], password=password))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_another_account_without_the_password_is_refused(
    database: str, port: tuple[int, str]
) -> None:
    os.seteuid(pwd.getpwnam("nobody").pw_uid)
    try:
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(through(database, port[0], password="guessed"))
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("data", [b"", b"GET ", pack(">i", 4), pack(">i", 1 << 30), pack(">i", -1)])
def test_what_is_no_client_of_postgresql_gets_no_answer(port: tuple[int, str], data: bytes) -> None:
    with (
        socket.create_connection(("127.0.0.1", port[0])) as client,
        client.makefile("rb") as answer,
    ):
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)

        assert answer.read() == b""


def test_server_that_asks_for_a_password_itself_gets_the_same() -> None:
    with (
        embedded.start_ephemeral() as server,
        psycopg.connect(server.url, autocommit=True) as owner,
    ):
        owner.execute("create role guarded login password 'secret'")
        rules = server.data_dir / "postgresql" / "pg_hba.conf"
        rules.write_text(f"local all guarded scram-sha-256\n{rules.read_text()}")
        owner.execute("select pg_reload_conf()")
        eventually(lambda: refuses(server.url), why="the server asks for a password")

        path = conninfo_to_dict(server.url)["host"]
        with (
            proxied(f"{path}/.s.PGSQL.5432", "secret") as (number, password),
            psycopg.connect(
                through(server.url, number, user="guarded", password=password)
            ) as connection,
        ):
            row = connection.execute("select current_user").fetchone()

    assert row == ("guarded",)


def refuses(url: str) -> bool:
    """Return whether the server refuses the role `guarded` without its password."""
    with suppress(psycopg.OperationalError):
        psycopg.connect(make_conninfo(url, user="guarded")).close()
        return False
    return True
