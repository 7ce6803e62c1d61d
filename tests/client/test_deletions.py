"""When messages of handlers without a transaction are deleted."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from skipmq import App, Queue
from skipmq.client import ClientError
from skipmq.client.database import Database
from skipmq.client.message import Message
from skipmq.client.settling import Deletions
from support.applications import Applications, receive
from support.consumers import each_kind, send
from support.http import eventually
from support.postgres import Connection
from support.proxy import Proxy
from support.sql import history, number

ORDERS = Queue("orders", str)
LOCK = "select from skipmq.message where queue_id > 0 and body = %s for update"
# Pauses the delete of a message while the gate has a row, and then refuses it.
REFUSE = """
create table public.gate as select 1;
create function public.refuse() returns trigger language plpgsql as $$
begin
  while exists (select from public.gate) loop
    perform pg_sleep(0.01);
  end loop;
  raise 'refused';
end $$;
create trigger refuse before insert on skipmq.history for each row
when (new.message_id = '{}') execute function public.refuse();
"""
PAUSED = "select count(*) from pg_stat_activity where usename = 'shop' and wait_event = 'PgSleep'"
COMMITS = "select count(distinct xid) from skipmq.history"


@asynccontextmanager
async def source_of(shop: str) -> AsyncIterator[Database]:
    source = Database(shop)
    try:
        yield source
    finally:
        await source.close()


async def deleted(deletions: Deletions, messages: list[Message]) -> list[Any]:
    calls = [deletions.delete([message]) for message in messages]
    return await asyncio.gather(*calls, return_exceptions=True)


@each_kind
async def test_messages_are_deleted_in_one_commit_but_those_of_others(
    shop: str, sender: Connection, owner: Connection, name: str
) -> None:
    queue: Queue[str] = Queue(name, str)
    released: list[Message] = []
    send(sender, queue, "a", "b", "c")
    async with source_of(shop) as source:
        deletions = Deletions(queue, source, released.extend)
        messages = await source.claim(queue, 10, 60)
        owner.execute(
            "update skipmq.message set receive_count = receive_count + 1 where body = 'b'"
            " and queue_id > 0"
        )

        assert await deleted(deletions, messages) == [True, False, True]

    assert released == messages
    assert history(owner) == [("deleted",)] * 2
    assert number(owner, COMMITS) == 1
    assert [row["body"] for row in receive(owner, name)] == []
    assert number(owner, "select count(*) from skipmq.message where body = 'b'") == 1


async def test_each_that_waits_has_the_error_and_the_next_are_deleted(
    shop: str, sender: Connection, applications: Applications
) -> None:
    send(sender, ORDERS, "a", "b")
    async with source_of(shop) as source:
        deletions = Deletions(ORDERS, source, lambda _: None)
        messages = await source.claim(ORDERS, 10, 60)
        applications.revoke("shop", receive=["orders"])

        found = await deleted(deletions, messages)

        assert [type(each) for each in found] == [ClientError] * 2
        assert all("may not receive from the queue orders" in str(each) for each in found)
        applications.grant("shop", receive=["orders"])
        assert await deleted(deletions, messages) == [True, True]


async def test_message_that_is_cut_off_while_the_database_is_unavailable_is_not_deleted(
    shop: str, sender: Connection, owner: Connection
) -> None:
    send(sender, ORDERS, "a", "b")
    given = psycopg.conninfo.conninfo_to_dict(shop)
    with Proxy(Path(str(given["host"])) / ".s.PGSQL.5432") as proxy:
        url = f"postgresql://shop@127.0.0.1:{proxy.port}/{given['dbname']}"
        async with source_of(url) as source:
            deletions = Deletions(ORDERS, source, lambda _: None)
            messages = await source.claim(ORDERS, 10, 60)
            with proxy.refusing():
                cut_off, other = (asyncio.create_task(deletions.delete([m])) for m in messages)
                await asyncio.to_thread(eventually, lambda: not source.is_open, why="noticed")
                cut_off.cancel()

            assert await other
    assert owner.execute("select body from skipmq.message where queue_id > 0").fetchall() == [
        ("a",)
    ]
    assert history(owner) == [("deleted",)]


async def test_error_of_a_delete_is_not_that_of_the_next(
    shop: str, sender: Connection, owner: Connection
) -> None:
    send(sender, ORDERS, "a", "b")
    async with source_of(shop) as source:
        deletions = Deletions(ORDERS, source, lambda _: None)
        first, second = await source.claim(ORDERS, 10, 60)
        owner.execute(REFUSE.format(first.id).encode())
        failing = asyncio.create_task(deletions.delete([first]))
        await asyncio.to_thread(eventually, lambda: number(owner, PAUSED), why="it is paused")
        waiting = asyncio.create_task(deletions.delete([second]))
        await asyncio.sleep(0)  # It begins, and waits.
        owner.execute("delete from public.gate")

        assert await waiting
        with pytest.raises(psycopg.errors.RaiseException, match="refused"):
            await failing
    assert history(owner) == [("deleted",)]


def test_next_handler_runs_while_a_message_is_being_deleted(
    app: App, sender: Connection, owner: Connection, database: str
) -> None:
    seen = []
    with psycopg.connect(database) as other:

        @app.consumer(ORDERS)
        def handle(body: str) -> None:
            if not seen:
                other.execute(LOCK, (body,))
            else:
                assert number(owner, "select count(*) from skipmq.message where queue_id > 0") == 2
                other.commit()
            seen.append(body)

        send(sender, ORDERS, "tea", "milk")

        assert app.drain() == Counter(done=2)
    assert sorted(seen) == ["milk", "tea"]
    assert history(owner) == [("deleted",)] * 2


def test_what_waits_for_its_handler_stays_hidden_without_extension(
    app: App, sender: Connection, owner: Connection
) -> None:
    queue: Queue[str] = Queue("orders.fifo", str)
    seen = []
    times = "select visible_at from skipmq.message where queue_id > 0 and body = %s"

    @app.consumer(queue, concurrency=2, visibility=6, extend=False)
    def handle(body: str) -> None:
        if body == "one":
            own, other = number(owner, times, "one"), number(owner, times, "two")
            while number(owner, times, "two") == other:
                pass
            assert number(owner, times, "one") == own
        seen.append(body)

    send(sender, queue, "one", "two")

    assert app.drain() == Counter(done=2)
    assert seen == ["one", "two"]
