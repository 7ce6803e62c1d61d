"""A request is acknowledged only after its commit, which comes after the rows of its statement.

A deferred constraint trigger raises at the commit, after the rows and CommandComplete.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from botocore.exceptions import ClientError

from support.http import NodeProcess, WsgiProcess
from support.postgres import Connection, Databases, as_node
from support.shop import Shop
from support.writes import WRITES, Write

# What the requests write; not queue_delta and the like, which the node writes by itself.
TABLES = (
    "message",
    "message_group",
    "deduplication",
    "queue",
    "move_task",
    "topic",
    "subscription",
    "schedule",
    "paused_group",
)


@pytest.fixture(scope="module")
def url(embedded_databases: Databases) -> Iterator[str]:
    url = embedded_databases.migrated()
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute("create table public.failing_commits ()")
        owner.execute("grant select on public.failing_commits to public")
        owner.execute(
            "create function public.fail_commit() returns trigger language plpgsql as $$ begin"
            " if exists (select from public.failing_commits) then"
            "   raise exception 'the commit fails';"
            " end if; return null; end $$"
        )
        for table in TABLES:
            owner.execute(
                "create constraint trigger fail_commit after insert or update or delete"
                f" on skipmq.{table} deferrable initially deferred"
                " for each row execute function public.fail_commit()"
            )
    yield url
    embedded_databases.drop(url)


@pytest.fixture(
    scope="module", params=[NodeProcess, pytest.param(WsgiProcess, marks=pytest.mark.slow)]
)
def node(url: str, request: pytest.FixtureRequest) -> Iterator[NodeProcess]:
    with request.param(
        database_url=as_node(url), workers=1, purge_cooldown=0, name_cooldown=0
    ) as found:
        yield found.ready()


@pytest.fixture
def owner(url: str) -> Iterator[Connection]:
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


@contextmanager
def failing_commits(owner: Connection) -> Iterator[None]:
    owner.execute("insert into public.failing_commits default values")
    try:
        yield
    finally:
        owner.execute("delete from public.failing_commits")


@pytest.mark.parametrize("write", WRITES, ids=str)
def test_request_whose_commit_fails_is_not_acknowledged(
    node: NodeProcess, owner: Connection, write: Write
) -> None:
    shop = Shop(node.url, owner, fifo=write.fifo)
    act = write.prepare(shop)

    with failing_commits(owner), pytest.raises(ClientError) as refused:
        act()

    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500
    assert not write.done(shop, {})
    assert write.done(shop, act())
