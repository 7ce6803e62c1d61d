"""Statements while a router is made again, as `partitions add` does, and sessions in partitions."""

from concurrent.futures import ThreadPoolExecutor
from time import monotonic

import psycopg
import pytest

from skipmq.database.partitions import Database
from skipmq.database.router import partition_map, routers
from skipmq.database.statement import Statement
from skipmq.protocol import errors
from support.http import NodeProcess, client, eventually
from support.partitions import Partitions
from support.postgres import as_node, with_long_lock_timeout
from support.sql import number

WAITING = (
    "select count(*) from pg_stat_activity where datname = current_database()"
    " and usename = %s and wait_event_type = 'Lock'"
)
SETTINGS = {
    "datestyle": "SQL, DMY",
    "default_transaction_isolation": "'serializable'",
    "intervalstyle": "'sql_standard'",
    "statement_timeout": "'1ms'",
    "timezone": "'Asia/Kathmandu'",
}


def test_requests_wait_while_the_router_is_made_again(fresh: Partitions) -> None:
    whole = partition_map.find_map(fresh.router)
    with (
        NodeProcess(
            database_url=with_long_lock_timeout(as_node(fresh.router)), workers=1
        ) as process,
        ThreadPoolExecutor() as pool,
        psycopg.connect(fresh.urls[0]) as first,
        psycopg.connect(fresh.router, autocommit=True) as owner,
    ):
        sqs = client(process.ready().url)
        # The router's functions and its map are new by then, and not committed.
        first.execute("lock table skipmq.alembic_version in access exclusive mode")
        made = pool.submit(routers.install, fresh.router, fresh.urls, whole, "")
        with psycopg.connect(fresh.urls[0], autocommit=True) as other:
            eventually(lambda: number(other, WAITING, "postgres") == 1, why="it is made again")
        created = [pool.submit(sqs.create_queue, QueueName=f"queue-{n}") for n in range(4)]
        listed = pool.submit(sqs.list_queues, QueueNamePrefix="queue")
        eventually(lambda: number(owner, WAITING, "skipmq_node") >= 1, why="a request waits")

        first.rollback()

        made.result()
        assert all(each.result()["QueueUrl"] for each in created)
        listed.result()
        assert len(sqs.list_queues(QueueNamePrefix="queue")["QueueUrls"]) == 4


@pytest.mark.parametrize("repeatable", [True, False])
async def test_function_that_is_gone_is_looked_up_again_where_the_statement_may_run_twice(
    fresh: Partitions, repeatable: bool
) -> None:
    """The server's error, where it is otherwise a matter of luck."""
    with psycopg.connect(fresh.router, autocommit=True) as owner:
        owner.execute("create sequence skipmq.tries")
        owner.execute("grant usage on sequence skipmq.tries to skipmq_node")
        owner.execute(
            "create function skipmq.remade() returns bigint language plpgsql as $$ declare"
            " v_try bigint := nextval('skipmq.tries'); begin if v_try = 1 then"
            " raise exception 'cache lookup failed for function 16566' using errcode = 'XX000';"
            " end if; return v_try; end $$"
        )
    database = Database(as_node(fresh.router), size=1)
    statement = Statement("select skipmq.remade()", repeatable=repeatable)
    try:
        if repeatable:
            assert await database.rows(statement, deadline=monotonic() + 60) == [(2,)]
        else:
            with pytest.raises(errors.OutcomeUnknown):
                await database.rows(statement, deadline=monotonic() + 60)
    finally:
        database.close()


def test_router_has_settings_of_its_own_in_partitions(fresh: Partitions) -> None:
    for url in fresh.urls:
        with psycopg.connect(url, autocommit=True) as owner:
            for name, value in SETTINGS.items():
                place = psycopg.sql.Identifier(owner.info.dbname)
                change = f"alter database {{}} set {name} to {value}"
                owner.execute(psycopg.sql.SQL(change).format(place))  # type: ignore[arg-type]
    shown = ", ".join(f"current_setting('{name}')" for name in SETTINGS)

    with psycopg.connect(fresh.router, autocommit=True) as owner:
        owner.execute(
            "create function skipmq.settings() returns text[] language plproxy as $$"
            f" cluster 'skipmq'; run on 0; select array[{shown}]; $$;"
            " alter function skipmq.settings() owner to skipmq_router;"
            " alter function skipmq.settings() security definer".encode()
        )

        assert number(owner, "select skipmq.settings()") == [
            "ISO, MDY",
            "read committed",
            "postgres",
            "0",
            "UTC",
        ]
