"""Databases of another encoding than UTF-8, and programs that are set to another."""

from collections.abc import Iterator

import psycopg
import pytest

from skipmq.database import schema
from support.commands import invoke
from support.http import NodeProcess, environment, free_port
from support.partitions import Partitions, run
from support.postgres import Databases

SOURCES = "select proname, prosrc from pg_proc where pronamespace = 'skipmq'::regnamespace"
COMMANDS = [("migrate",), ("migrate", "--dry-run"), ("doctor",), ("queue", "list")]


@pytest.fixture(params=["LATIN1", "SQL_ASCII"])
def foreign(embedded_databases: Databases, request: pytest.FixtureRequest) -> Iterator[str]:
    """Give the URL of a database in another encoding."""
    url = encoded(embedded_databases, request.param)
    yield url
    embedded_databases.drop(url)


def encoded(databases: Databases, encoding: str) -> str:
    name = f"in_{encoding.lower()}"
    with psycopg.connect(databases.server.url, autocommit=True) as connection:
        connection.execute(
            f"create database {name} template template0 locale 'C' encoding '{encoding}'".encode()
        )
    return databases.url(name)


def test_database_in_another_encoding_is_refused(foreign: str) -> None:
    for words in COMMANDS:
        done = invoke(words, environment({"database_url": foreign, "port": free_port()}))

        said = " ".join((done.stdout + done.stderr).split())
        assert done.code == 1, words
        assert "the database's encoding is" in said, words
        assert "create database … template template0 encoding 'UTF8'" in said, words
    with psycopg.connect(foreign) as connection:
        assert connection.execute("select to_regnamespace('skipmq')").fetchone() == (None,)


def test_node_does_not_start_on_a_database_in_another_encoding(foreign: str) -> None:
    with NodeProcess(database_url=foreign) as node:
        code = node.process.wait(60)

    assert code == 1
    assert "the database's encoding is" in node.log


def test_partition_and_router_in_another_encoding_are_refused(
    embedded_databases: Databases, router_server: Databases
) -> None:
    two = Partitions.copied(embedded_databases, router_server, 2)
    urls = [encoded(embedded_databases, "LATIN1"), encoded(router_server, "LATIN1")]

    partition = run("add", "--router", two.router, "--partition", urls[0])
    given = [word for url in two.urls for word in ("--partition", url)]
    router = run("init", "--router", urls[1], *given)

    for refused in (partition, router):
        assert "the database's encoding is LATIN1" in str(refused.exception)
    embedded_databases.drop(urls[0])
    router_server.drop(urls[1])
    two.drop()


@pytest.mark.parametrize(
    "encoding",
    [
        "LATIN1",
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("SQL_ASCII", "MULE_INTERNAL")),
    ],
)
def test_encoding_of_the_environment_does_not_reach_the_schema(
    databases: Databases, database: str, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    with psycopg.connect(database) as connection:
        texts = dict(connection.execute(SOURCES).fetchall())
    url, again = databases.empty(), databases.empty()
    monkeypatch.setenv("PGCLIENTENCODING", encoding)

    schema.migrate(url)
    schema.upgrade(again)

    monkeypatch.delenv("PGCLIENTENCODING")
    assert "…" in texts["grant_queues"]
    for migrated in (url, again):
        with psycopg.connect(migrated) as connection:
            assert dict(connection.execute(SOURCES).fetchall()) == texts
