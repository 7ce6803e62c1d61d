"""What becomes of a message whose handler does not do its work."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from skipmq import App, Context, DeadLetter, Discard, Queue, Retry
from skipmq.client import ClientError, LostMessageError, worker
from support.applications import receive
from support.consumers import (
    BOUGHT,
    BrokenError,
    Order,
    bought,
    dead,
    dead_letters,
    each_kind,
    hidden,
    never_called,
    send,
)
from support.postgres import Connection
from support.sql import Queue as Table
from support.sql import number, redrive_policy


@each_kind
@pytest.mark.parametrize("is_async", [False, True])
def test_failure_rolls_back_hides_for_the_backoff_and_counts(
    app: App, sender: Connection, owner: Connection, name: str, is_async: bool
) -> None:
    queue: Queue[str] = Queue(name, str)
    options: Any = {"retry": Retry.backoff(1_000, most=10_000)}

    def handle(body: str, context: Context) -> None:
        with context.transaction() as tx:
            tx.execute(BOUGHT, (body,))
            raise BrokenError("no milk")

    async def ahandle(body: str, context: Context) -> None:
        async with context.transaction() as tx:
            await tx.execute(BOUGHT, (body,))
            raise BrokenError("no milk")

    app.consumer(queue, **options)(ahandle if is_async else handle)
    send(sender, queue, "tea")

    with pytest.raises(BrokenError):
        app.drain()

    ((body, count, seconds, reason),) = hidden(owner)
    assert (bought(owner), body, count) == ([], "tea", 1)
    assert reason == "BrokenError: no milk"
    assert 450 < seconds <= 1_000
    owner.execute("update skipmq.message set visible_at = now() where queue_id > 0")
    owner.execute("update skipmq.message_group set available_at = now() where queue_id > 0")
    assert app.run(once=True) == Counter(retried=1)
    ((_, count, seconds, _),) = hidden(owner)
    assert count == 2
    assert 950 < seconds <= 2_000


@each_kind
def test_message_is_dead_lettered_after_so_many_attempts(
    app: App, sender: Connection, owner: Connection, name: str
) -> None:
    dead(owner)
    queue: Queue[str] = Queue(name, str)
    seen = []

    @app.consumer(queue, attempts=3, retry=Retry.backoff(0, most=0))
    def handle(body: str, context: Context) -> None:
        seen.append(context.message.receive_count)
        raise BrokenError(f"no {body}")

    send(sender, queue, "tea")

    found = app.run(once=True)

    assert seen == [1, 2, 3]
    assert found == Counter({"retried": 2, "dead-lettered": 1})
    assert dead_letters(owner, name) == [("tea", "BrokenError: no tea")]


@each_kind
def test_message_of_workers_that_died_is_dead_lettered_without_its_handler(
    app: App, sender: Connection, owner: Connection, name: str
) -> None:
    dead(owner)
    queue: Queue[str] = Queue(name, str)
    app.consumer(queue, attempts=2)(never_called)
    send(sender, queue, "tea")
    for _ in range(2):
        receive(sender, name, timeout=0)

    assert app.drain() == Counter({"dead-lettered": 1})
    assert dead_letters(owner, name) == [
        ("tea", "received 3 times, and 2 are allowed"),
    ]


@each_kind
def test_attempts_in_a_dead_letter_queue_count_its_own_receives(
    app: App, owner: Connection, name: str
) -> None:
    dead(owner)
    first = name.replace("orders", "first")
    Table(owner, first, RedrivePolicy=redrive_policy(name, 2))
    send(owner, Queue(first, str), "tea")
    for _ in range(3):
        receive(owner, first, timeout=0)
    queue: Queue[str] = Queue(name, str)
    seen = []

    @app.consumer(queue, attempts=2, retry=Retry.backoff(0, most=0))
    def handle(body: str, context: Context) -> None:
        seen.append((context.message.receive_count, context.message.deliveries))
        raise BrokenError(f"no {body}")

    assert app.run(once=True) == Counter({"retried": 1, "dead-lettered": 1})
    assert seen == [(3, 1), (4, 2)]
    assert dead_letters(owner, name) == [("tea", "BrokenError: no tea")]


@each_kind
@pytest.mark.parametrize("is_async", [False, True])
def test_handler_names_the_outcome(
    app: App, sender: Connection, owner: Connection, name: str, is_async: bool
) -> None:
    dead(owner)
    queue: Queue[str] = Queue(name, str)
    outcomes: dict[str, Exception] = {
        "retry": Retry("not yet", after=60),
        "discard": Discard("of no use"),
        "dead": DeadLetter("no such item"),
    }

    def handle(body: str, context: Context) -> None:
        with context.transaction() as tx:
            tx.execute(BOUGHT, (body,))
            raise outcomes[body]

    async def ahandle(body: str) -> None:
        raise outcomes[body]

    app.consumer(queue)(ahandle if is_async else handle)
    for body in outcomes:
        queue.send(
            body, using=sender, **({"group": body, "deduplication_id": body} if queue.fifo else {})
        )

    found = app.drain()

    assert found == Counter({"retried": 1, "discarded": 1, "dead-lettered": 1})
    ((body, _, seconds, reason),) = hidden(owner)
    assert (bought(owner), body, reason) == ([], "retry", "not yet")
    assert 30 < seconds <= 60
    assert dead_letters(owner, name) == [("dead", "no such item")]
    assert number(owner, "select count(*) from skipmq.history where outcome = 'deleted'") == 1


@each_kind
def test_body_that_does_not_decode_is_dead_lettered_with_the_reason(
    app: App, sender: Connection, owner: Connection, name: str
) -> None:
    dead(owner)
    app.consumer(Queue(name, Order))(never_called)
    send(sender, Queue(name, str), '{"n": "one"}')

    assert app.drain() == Counter({"dead-lettered": 1})
    ((body, reason),) = dead_letters(owner, name)
    assert body == '{"n": "one"}'
    assert reason == "ValidationError: Expected `int`, got `str` - at `$.n`"


@each_kind
def test_message_without_a_dead_letter_queue_is_hidden_for_an_hour(
    app: App, sender: Connection, owner: Connection, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []
    app.consumer(Queue(name, Order))(seen.append)
    send(sender, Queue(name, str), "no JSON", '{"n": 1}')

    found = app.drain()

    # Behind it its group waits.
    assert len(seen) == (name == "orders")
    assert found["retried"] == 1
    ((_, _, seconds, _),) = [each for each in hidden(owner) if each[0] == "no JSON"]
    assert 3_500 < seconds <= 3_600
    assert "give the queue a RedrivePolicy. Reason: DecodeError" in caplog.text


@each_kind
def test_handler_whose_message_another_received_meanwhile_is_rolled_back(
    app: App, sender: Connection, owner: Connection, name: str
) -> None:
    queue: Queue[str] = Queue(name, str)
    lost: list[Exception] = []

    @app.consumer(queue)
    def handle(body: str, context: Context) -> None:
        try:
            with context.transaction() as tx:
                tx.execute(BOUGHT, (body,))
                owner.execute("update skipmq.message set visible_at = now() where queue_id > 0")
                owner.execute("update skipmq.message_group set available_at = now()")
                assert receive(owner, name)
        except LostMessageError as error:
            lost.append(error)
            raise

    send(sender, queue, "tea")

    assert app.drain() == Counter(lost=1)
    assert bought(owner) == []
    assert [str(error) for error in lost] == [
        f"the message was received from {name} by another consumer meanwhile"
    ]
    assert len(hidden(owner)) == 1


@pytest.mark.parametrize("is_async", [False, True])
def test_second_transaction_within_the_first_is_refused(
    app: App, sender: Connection, owner: Connection, is_async: bool
) -> None:
    queue: Queue[str] = Queue("orders", str)
    refused: list[str] = []

    def handle(body: str, context: Context) -> None:
        with context.transaction() as tx:
            tx.execute(BOUGHT, (body,))
            with pytest.raises(ClientError) as caught, context.transaction():
                pass
            refused.append(str(caught.value))
            with pytest.raises(ClientError) as caught:
                context.delete(using=tx)
            refused.append(str(caught.value))

    async def ahandle(body: str, context: Context) -> None:
        async with context.transaction() as tx:
            await tx.execute(BOUGHT, (body,))
            with pytest.raises(ClientError) as caught:
                async with context.transaction():
                    pass
            refused.append(str(caught.value))
            with pytest.raises(ClientError) as caught:
                await context.adelete(using=tx)
            refused.append(str(caught.value))

    app.consumer(queue)(ahandle if is_async else handle)  # type: ignore[arg-type]
    send(sender, queue, "tea")

    assert app.drain() == Counter(done=1)
    assert bought(owner) == ["tea"]
    text = "a transaction that deletes the message has begun: do all of its work there"
    assert refused == [text, text]


def test_failure_after_the_commit_leaves_the_message_deleted(
    app: App, sender: Connection, owner: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    queue: Queue[str] = Queue("orders", str)

    @app.consumer(queue)
    def handle(body: str, context: Context) -> None:
        with context.transaction() as tx:
            tx.execute(BOUGHT, (body,))
        raise BrokenError

    send(sender, queue, "tea")

    assert app.run(once=True) == Counter(done=1)
    assert bought(owner) == ["tea"]
    assert "failed after its commit" in caplog.text


@each_kind
def test_batch_that_fails_is_retried_without_what_is_broken(
    app: App, sender: Connection, owner: Connection, name: str
) -> None:
    dead(owner)
    seen = []

    @app.consumer(Queue(name, Order), batch=10, attempts=2, retry=Retry.backoff(0, most=0))
    def handle(batch: list[Order]) -> None:
        seen.append([order.n for order in batch])
        raise BrokenError

    send(sender, Queue(name, str), '{"n": 1}', "no JSON", '{"n": 2}')

    found = app.run(once=True)

    assert seen == [[1, 2], [1, 2]]
    assert found == Counter({"dead-lettered": 3, "retried": 2})
    bodies = {body for body, _ in dead_letters(owner, name)}
    assert bodies == {'{"n": 1}', '{"n": 2}', "no JSON"}


def test_order_of_a_group_is_kept_when_a_message_fails(
    app: App, sender: Connection, owner: Connection
) -> None:
    queue = Queue("orders.fifo", dict)
    done: dict[str, list[int]] = {"a": [], "b": [], "c": []}
    failed = set()

    @app.consumer(queue, concurrency=8, retry=Retry.backoff(0, most=0))
    def handle(body: dict[str, Any], context: Context) -> None:
        key = (body["group"], body["n"])
        if body["n"] % 3 == 0 and key not in failed:
            failed.add(key)
            raise BrokenError
        with context.transaction():
            done[body["group"]].append(body["n"])

    for group in done:
        send(sender, queue, *({"group": group, "n": n} for n in range(20)), group=group)

    found = app.run(once=True)

    assert done == {group: list(range(20)) for group in done}
    assert found["done"] == 60
    # What was claimed behind one that failed was not received, for its count.
    counts = "select distinct receive_count from skipmq.history order by 1"
    assert owner.execute(counts).fetchall() == [(1,), (2,)]


@pytest.mark.parametrize("error", [asyncio.CancelledError, SystemExit, KeyError])
@pytest.mark.parametrize("is_async", [False, True])
def test_error_of_any_kind_counts_and_the_worker_goes_on(
    app: App, sender: Connection, owner: Connection, error: type[BaseException], is_async: bool
) -> None:
    queue = Queue("orders", str)

    def handle(body: str) -> None:
        if body == "broken":
            raise error("why")

    async def ahandle(body: str) -> None:
        handle(body)

    app.consumer(queue)(ahandle if is_async else handle)
    send(sender, queue, "broken", "whole")

    assert app.run(once=True) == Counter(retried=1, done=1)
    ((body, count, _, reason),) = hidden(owner)
    assert (body, count) == ("broken", 1)
    assert reason is not None
    assert reason.startswith(error.__name__)


def test_worker_says_what_became_of_messages(
    app: App,
    sender: Connection,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level("INFO", "skipmq.client")
    monkeypatch.setattr(worker, "_SUMMARY_SECONDS", 0.01)

    async def handle(body: str) -> None:
        if body == "busy":
            raise Retry("the server said 450", after=600)
        while "in the last minute" not in caplog.text and body == "last":  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    queue: Queue[str] = Queue("orders", str)
    app.consumer(queue, concurrency=2)(handle)
    send(sender, queue, "tea", "busy", "last")

    app.run(once=True)

    done, asked = "handle done: queue orders, message ", "handle asks for a retry: queue orders"
    assert sum(done in text for text in caplog.messages) == 2
    (text,) = [text for text in caplog.messages if asked in text]
    assert text.endswith("attempt 1, again in 600 s: the server said 450")
    assert any(text.startswith("orders in the last minute: ") for text in caplog.messages)
