"""Workers that wait: the notification of a node wakes them, and without one they poll."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from skipmq import App, Queue
from skipmq.client import claiming
from support.applications import applications_of
from support.http import NodeProcess, client, eventually
from support.postgres import Databases, as_node
from support.sql import number

LISTENS = """
  select count(*) from pg_stat_activity
  where usename = 'shop' and datname = current_database() and query like '%%pg_notify%%'"""
ORDERS = Queue("orders", str)


@pytest.fixture(scope="module")
def node(embedded_databases: Databases) -> Iterator[NodeProcess]:
    url = embedded_databases.migrated()
    with NodeProcess(database_url=as_node(url)) as process:
        process.owner_url = url
        yield process.ready()


@pytest.fixture
def shop(node: NodeProcess) -> Iterator[str]:
    with applications_of(node.owner_url) as applications:
        applications.create("shop")
        for account in ("000000000000", "000000000001"):
            client(node.url, key=account).create_queue(QueueName="orders")
            applications.grant("shop", send=["orders"], receive=["orders"], account=account)
        yield applications.url("shop")


@asynccontextmanager
async def waiting(app: App, owner_url: str) -> AsyncIterator[list[str]]:
    """Run an app with a consumer that has found nothing and listens; give what it handles."""
    bodies: list[str] = []

    @app.consumer(ORDERS)
    async def handle(body: str) -> None:
        bodies.append(body)

    running = asyncio.create_task(app.arun())
    with psycopg.connect(owner_url, autocommit=True) as owner:
        await asyncio.to_thread(eventually, lambda: number(owner, LISTENS), why="it listens")
    yield bodies
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


@pytest.mark.parametrize("account", ["000000000000", "000000000001"])
async def test_message_that_is_sent_at_a_node_wakes_a_worker(
    node: NodeProcess, shop: str, account: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for pause in ("_POLL_SOON", "_POLL_SECONDS"):
        monkeypatch.setattr(claiming, pause, 3_600.0)
    sqs = client(node.url, key=account)
    url = sqs.get_queue_url(QueueName="orders")["QueueUrl"]
    of_account = make_conninfo(shop, options=f"-c skipmq.account={account}")

    async with waiting(App(of_account), node.owner_url) as bodies:

        def sent() -> bool:
            # Until the node has heard that a worker waits it notifies nobody.
            sqs.send_message(QueueUrl=url, MessageBody="x")
            return bool(bodies)

        await asyncio.to_thread(eventually, sent, why="it is woken")


async def test_message_that_is_sent_by_sql_is_found_by_polling(
    node: NodeProcess, shop: str
) -> None:
    async with waiting(App(shop), node.owner_url) as bodies:
        with psycopg.connect(shop) as tx:
            ORDERS.send("tea", using=tx)

        await asyncio.to_thread(eventually, lambda: "tea" in bodies)


async def test_worker_that_hears_nothing_polls(node: NodeProcess, shop: str) -> None:
    bodies: list[str] = []
    app = App(shop)
    app.consumer(ORDERS)(bodies.append)
    # As where the role may not notify, or a pooler is between.
    with psycopg.connect(node.owner_url, autocommit=True) as owner:
        owner.execute("revoke execute on function pg_notify from public")
        try:
            running = asyncio.create_task(app.arun())
            with psycopg.connect(shop) as tx:
                ORDERS.send("coffee", using=tx)
            await asyncio.to_thread(eventually, lambda: "coffee" in bodies)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        finally:
            owner.execute("grant execute on function pg_notify to public")
