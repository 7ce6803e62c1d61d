"""What a handler is given, and how its messages are deleted."""

import json
import threading
from collections import Counter
from typing import Any

import psycopg
import pytest

from skipmq import App, Context, Queue, Retry
from skipmq.client import ClientError
from support.consumers import (
    BOUGHT,
    BrokenError,
    Order,
    bought,
    each_kind,
    send,
)
from support.postgres import Connection
from support.sql import number

LATER = """
  select count(*) from skipmq.message
  where queue_id > 0 and visible_at > %s + interval '2 seconds'"""


@each_kind
def test_message_of_a_handler_that_returns_is_deleted(
    app: App, sender: Connection, owner: Connection, name: str
) -> None:
    queue, seen = Queue(name, Order), []
    app.consumer(queue)(seen.append)
    send(sender, queue, *(Order(n) for n in range(25)))

    found = app.drain()

    assert sorted(order.n for order in seen) == list(range(25))
    assert found == Counter(done=25)
    assert number(owner, "select count(*) from skipmq.history where outcome = 'deleted'") == 25


@each_kind
def test_coroutine_is_run_on_the_loop(app: App, sender: Connection, name: str) -> None:
    queue, seen = Queue(name, Order), []

    @app.consumer(queue, concurrency=4)
    async def handle(order: Order, context: Context) -> None:
        seen.append((order.n, context.message.receive_count))

    send(sender, queue, *(Order(n) for n in range(25)))

    assert app.drain() == Counter(done=25)
    assert sorted(seen) == [(n, 1) for n in range(25)]


def test_context_says_what_is_known_of_a_message(app: App, sender: Connection) -> None:
    queue: Queue[str] = Queue("orders.fifo", str)
    seen: list[Any] = []

    @app.consumer(queue)
    def handle(body: str, context: Context) -> None:
        seen.append((body, context.message))

    values: Any = {"text": "x", "whole": 7, "part": 1.5, "raw": b"\xff"}
    id_ = queue.send("x", using=sender, group="g", deduplication_id="1", attributes=values)
    app.drain()

    ((body, message),) = seen
    assert (body, message.id, message.group, message.receive_count) == ("x", id_, "g", 1)
    assert message.attributes == values
    assert message.sent_at.tzinfo is not None
    assert "'x'" not in repr(message)


@each_kind
def test_work_and_delete_commit_together(
    app: App, sender: Connection, owner: Connection, name: str
) -> None:
    queue: Queue[str] = Queue(name, str)

    @app.consumer(queue)
    def handle(body: str, context: Context) -> None:
        with context.transaction() as tx:
            tx.execute(BOUGHT, (body,))
            assert bought(owner) == []

    send(sender, queue, "tea")

    assert app.drain() == Counter(done=1)
    assert bought(owner) == ["tea"]


@each_kind
async def test_work_and_delete_of_a_coroutine_commit_together(
    app: App, sender: Connection, owner: Connection, name: str
) -> None:
    queue: Queue[str] = Queue(name, str)

    @app.consumer(queue)
    async def handle(body: str, context: Context) -> None:
        async with context.transaction() as tx:
            await tx.execute(BOUGHT, (body,))

    send(sender, queue, "tea")

    assert await app.arun(once=True) == Counter(done=1)
    assert bought(owner) == ["tea"]


@each_kind
def test_handler_deletes_the_message_in_a_transaction_of_its_own(
    app: App, sender: Connection, owner: Connection, shop: str, name: str
) -> None:
    queue: Queue[str] = Queue(name, str)

    @app.consumer(queue, retry=Retry.backoff(0, most=0))
    def handle(body: str, context: Context) -> None:
        with psycopg.connect(shop) as tx:
            tx.execute(BOUGHT, (body,))
            context.delete(using=tx)
            if context.message.receive_count == 1:
                raise BrokenError

    send(sender, queue, "tea")

    assert app.run(once=True) == Counter(retried=1, done=1)
    assert bought(owner) == ["tea"]


def test_second_transaction_of_a_handler_is_refused(app: App, sender: Connection) -> None:
    queue: Queue[str] = Queue("orders", str)

    @app.consumer(queue)
    def handle(_: str, context: Context) -> None:
        with context.transaction():
            pass
        with pytest.raises(ClientError, match="deleted already"), context.transaction():
            pass

    send(sender, queue, "tea")

    assert app.drain() == Counter(done=1)


def test_coroutine_is_told_to_use_async_with(app: App, sender: Connection) -> None:
    queue: Queue[str] = Queue("orders", str)

    @app.consumer(queue)
    async def handle(_: str, context: Context) -> None:
        with context.transaction():
            pass

    send(sender, queue, "tea")

    with pytest.raises(ClientError, match="this handler is a coroutine: `async with"):
        app.drain()


def test_message_is_hidden_for_as_long_as_its_handler_runs(
    app: App, sender: Connection, owner: Connection
) -> None:
    queue: Queue[str] = Queue("orders", str)
    calls = []

    @app.consumer(queue, visibility=6, concurrency=2)
    def handle(body: str) -> None:
        calls.append(body)
        before = number(owner, "select visible_at from skipmq.message where queue_id > 0")
        while not number(owner, LATER, before):
            pass

    send(sender, queue, "tea")

    assert app.drain() == Counter(done=1)
    assert calls == ["tea"]


def test_batch_is_handled_and_deleted_as_one(
    app: App, sender: Connection, owner: Connection
) -> None:
    queue = Queue("orders", Order)
    sizes = []

    @app.consumer(queue, batch=100, seconds=2)
    async def handle(batch: list[Order], context: Context) -> None:
        sizes.append(len(batch))
        assert len(context.messages) == len(batch)
        async with context.transaction() as tx:
            await tx.cursor().executemany(BOUGHT, [(str(order.n),) for order in batch])

    send(sender, queue, *(Order(n) for n in range(250)))

    assert app.drain() == Counter(done=250)
    assert sizes == [100, 100, 50]
    assert sorted(map(int, bought(owner))) == list(range(250))


def test_groups_are_handled_at_once(app: App, sender: Connection) -> None:
    queue = Queue("orders.fifo", str)
    together = threading.Barrier(4, timeout=20)

    @app.consumer(queue, concurrency=4)
    def handle(_: str) -> None:
        together.wait()

    for group in "abcd":
        send(sender, queue, "x", group=group)

    assert app.drain() == Counter(done=4)


def test_consumer_of_an_untyped_queue_gets_what_its_handler_wants(
    app: App, sender: Connection
) -> None:
    queue = Queue("orders")
    seen: list[Any] = []

    @app.consumer(queue)
    def handle(order: Order) -> None:
        seen.append(order)

    send(sender, queue, {"n": 1})
    app.drain()

    assert seen == [Order(1)]
    assert json.loads(queue.codec.encode({"n": 1})) == {"n": 1}


def test_schedule_of_a_handler_is_declared_when_the_app_starts(app: App, owner: Connection) -> None:
    @app.schedule("30 2 * * *", {"n": 1}, zone="Europe/Berlin", priority=9)
    @app.consumer(Queue("orders", dict))
    def nightly(body: dict[str, Any]) -> None: ...

    app.drain()
    app.drain()

    rows = owner.execute(
        "select name, queue, expression, zone, body,"
        " attributes -> 'SkipMQ.Priority' ->> 'StringValue' from skipmq.schedule"
    )
    declared = ("nightly", "orders", "30 2 * * *", "Europe/Berlin", '{"n":1}', "9")
    assert rows.fetchall() == [declared]


def test_schedule_of_no_consumer_is_refused(app: App) -> None:
    with pytest.raises(ClientError, match=r"write @app\.consumer\(queue\)"):
        app.schedule("every hour")(print)
