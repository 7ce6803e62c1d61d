"""Settings of a role or a database change nothing: client, node, commands, analytics, migration."""

import asyncio
import tempfile
from datetime import datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner

from skipmq import App, Context, Queue
from skipmq.analytics.postgres import history
from skipmq.broker.messages.message import OutgoingMessage
from skipmq.broker.node import Node
from skipmq.cli import cli
from skipmq.client import ClientError, statements
from skipmq.config.settings import Settings
from skipmq.database import maintenance, pins, session
from skipmq.database.statement import Statement
from skipmq.protocol.call import Recipient
from skipmq.protocol.identity import QueueName
from support.applications import Applications
from support.pooler import PgBouncer
from support.postgres import Connection, Databases, as_node, as_reader
from support.sql import Queue as Made
from support.sql import number

ORDERS = Queue("orders", dict)
CONTENT = Queue("content.fifo", dict)
# Those that the caller's own sessions have too.
READING = {
    "array_nulls": "off",
    "bytea_output": "escape",
    "check_function_bodies": "off",
    "datestyle": "SQL, DMY",
    "default_transaction_deferrable": "on",
    "default_transaction_isolation": "serializable",
    "extra_float_digits": "-15",
    "intervalstyle": "iso_8601",
    "jit_above_cost": "0",
    "lc_messages": "C.utf8",
    "plan_cache_mode": "force_custom_plan",
    "quote_all_identifiers": "on",
    "row_security": "off",
    "search_path": "nowhere",
    "session_replication_role": "replica",
    "standard_conforming_strings": "off",
    "timezone": "Asia/Kathmandu",
    "transform_null_equals": "on",
    "xmloption": "document",
}
LIMITS = {
    "idle_in_transaction_session_timeout": "1ms",
    "idle_session_timeout": "1ms",
    "lock_timeout": "1ms",
    "statement_timeout": "1ms",
}


def each_alone(settings: dict[str, str]) -> list[Any]:
    """Return one case for each setting: where one alone changes something, all of them do."""
    return [pytest.param([name], marks=pytest.mark.slow) for name in settings]


@pytest.fixture
def shop(owner: Connection, applications: Applications) -> str:
    Made(owner)
    Made(owner, CONTENT.name, ContentBasedDeduplication="true")
    names = [ORDERS.name, CONTENT.name]
    applications.create("shop").grant("shop", send=names, receive=names)
    return applications.url("shop")


def put(owner: Connection, settings: dict[str, str]) -> None:
    """Set settings for all sessions that begin from now on."""
    for name, value in settings.items():
        owner.execute(
            psycopg.sql.SQL("alter database {} set {} to {}").format(
                psycopg.sql.Identifier(owner.info.dbname),
                psycopg.sql.Identifier(name),
                psycopg.sql.SQL(value if name == "datestyle" else f"'{value}'"),  # type: ignore[arg-type]
            )
        )


def worked(shop: str, owner: Connection, *, in_transactions: bool = True) -> list[datetime]:
    """Run consumers until nothing is visible; return when what they had was sent."""
    app, sent = App(shop), []

    @app.consumer(ORDERS, extend=False)
    def buy(body: dict[str, str], context: Context) -> None:
        sent.append(context.message.sent_at)
        assert body == {"item": "tea 😀"}
        assert context.message.attributes == {"of": "é", "size": 2}
        if in_transactions:
            with context.transaction() as connection:
                connection.execute("insert into public.bought values (%s)", (body["item"],))

    @app.consumer(CONTENT, batch=10, seconds=0)
    async def note(bodies: list[dict[str, int]], context: Context) -> None:
        sent.extend(each.sent_at for each in context.messages)
        assert [body["n"] for body in bodies] == [0, 1, 2]

    app.drain()
    assert number(owner, "select count(*) from skipmq.message where queue_id > 0") == 0
    return sent


def send(using: Any) -> None:
    with using.transaction():
        attributes = {"of": "é", "size": 2}
        ORDERS.send_many([{"item": "tea 😀"}] * 2, using=using, attributes=attributes)
        # The others have no id of their own.
        numbers = [{"n": number} for number in range(3)]
        ids = CONTENT.send_many(numbers, using=using, group="g", deduplication_ids=["first"])
        assert len({*ids}) == 3
        assert all(len(each) == 36 for each in ids)


def assert_recent(sent: list[datetime], owner: Connection, count: int) -> None:
    now = owner.execute("select clock_timestamp()").fetchone()
    assert now is not None
    assert [each.utcoffset() for each in sent] == [timedelta()] * count
    assert all(now[0] - timedelta(minutes=10) < each < now[0] for each in sent)


async def assert_node_works(url: str) -> None:
    node = Node(Settings(connections=1), as_node(url))
    deadline = monotonic() + 60
    try:
        orders = await node.queues.find(QueueName("000000000000", "us-east-1", "orders"), deadline)
        isolation = await node.database.rows(Statement("show transaction_isolation"))
        assert isolation == [("read committed",)]
        message = OutgoingMessage("00000000-0000-4000-8000-000000000000", "naïve 😀", 11)
        await node.standard.send(orders, [message], "tester", deadline)
        (found,) = (await node.standard.receive(orders, 1, None, deadline, Recipient())).messages
        assert found.body == "naïve 😀"
        assert 0 <= found.received_at - found.sent_at < 600_000_000
    finally:
        await node.close()


def assert_analytics_read(url: str, owner: Connection) -> None:
    with session.connect(as_reader(url), "skipmq analytics") as reading:
        assert_recent([history.now(reading)], owner, 1)
        assert len(history.days(reading)) > 1
        assert history.server(reading).now.tzinfo is not None


@pytest.mark.parametrize("names", [[*READING], *each_alone(READING)], ids=" ".join)
def test_settings_of_the_database_change_nothing(
    database: str, shop: str, owner: Connection, names: list[str]
) -> None:
    put(owner, {name: READING[name] for name in names})

    with psycopg.connect(shop, autocommit=True) as using:
        send(using)
    sent = worked(shop, owner)
    asyncio.run(assert_node_works(database))
    assert_analytics_read(database, owner)

    assert_recent(sent, owner, 5)
    assert number(owner, "select count(*) from public.bought") == 2


@pytest.mark.parametrize("names", [[*LIMITS], *each_alone(LIMITS)], ids=" ".join)
def test_limits_of_the_database_are_not_those_of_own_sessions(
    database: str, shop: str, owner: Connection, names: list[str]
) -> None:
    with psycopg.connect(shop, autocommit=True) as using:
        put(owner, {name: LIMITS[name] for name in names})
        send(using)

    sent = worked(shop, owner, in_transactions=False)
    asyncio.run(assert_node_works(database))

    assert len(sent) == 5


def test_database_with_all_odd_settings_is_migrated_and_examined(databases: Databases) -> None:
    url = databases.empty()
    with psycopg.connect(url, autocommit=True) as owner:
        put(owner, READING | LIMITS | {"client_encoding": "LATIN1"})
        if owner.info.server_version >= pins.TRANSACTION_TIMEOUT:
            # A node, too, has lifted it only after its first statement.
            put(owner, {"transaction_timeout": "100ms"})

        for words in (["migrate"], ["migrate"], ["doctor"]):
            environment = {"SKIPMQ_DATABASE_URL": url, "COLUMNS": "300"}
            done = CliRunner().invoke(cli, words, env=environment)
            assert done.exit_code == 0, done.output

        Made(owner)
        asyncio.run(assert_node_works(url))
    databases.drop(url)


@pytest.mark.parametrize("place", ["url", "environment"])
def test_options_change_limits_and_no_pins(
    database: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = "-c lock_timeout=7s -c timezone=Asia/Tokyo"
    if place == "environment":
        monkeypatch.setenv("PGOPTIONS", given)
    else:
        database = psycopg.conninfo.make_conninfo(database, options=given)

    with maintenance.connect(database) as connection:
        assert number(connection, "show lock_timeout") == "7s"
        assert number(connection, "show timezone") == "UTC"


def test_encoding_of_the_database_stops_only_what_the_caller_sends(
    shop: str, owner: Connection
) -> None:
    put(owner, {"client_encoding": "LATIN1"})

    with psycopg.connect(shop, autocommit=True) as using:
        with pytest.raises(ClientError, match="another client_encoding than UTF8"):
            send(using)
        using.execute("set client_encoding to 'UTF8'")
        send(using)

    assert len(worked(shop, owner)) == 5


def test_database_that_only_reads_is_named(shop: str, owner: Connection) -> None:
    """Services set it while a disk is full, so that nothing writes in spite of it."""
    put(owner, {"default_transaction_read_only": "on"})

    with pytest.raises(ClientError, match="session is read-only"):
        worked(shop, owner)


def test_claim_waits_for_no_standby(shop: str) -> None:
    with psycopg.connect(shop) as connection:
        connection.execute(statements.CLAIM, (ORDERS.name, 1, 30, None, None))

        assert number(connection, "show synchronous_commit") == "off"


@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_worker_works_behind_a_pooler_that_refuses_options(
    shop: str, owner: Connection, public_folder: Path, mode: str
) -> None:
    put(owner, {"datestyle": "SQL, DMY", "client_encoding": "LATIN1"})
    folder = Path(tempfile.mkdtemp(dir=public_folder))
    folder.chmod(0o755)
    bouncer = PgBouncer(folder, shop)
    with bouncer.running(mode):
        with psycopg.connect(bouncer.url, autocommit=True, client_encoding="UTF8") as using:
            send(using)

        sent = worked(bouncer.url, owner)

    assert_recent(sent, owner, 5)
