"""Handlers that are not what they seem, errors that are odd, claims that others have taken over."""

import functools
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator

import pytest

from skipmq import App, Context, DeadLetter, Queue, Retry
from skipmq.client import ClientError
from support.applications import receive
from support.consumers import BOUGHT, bought, dead, dead_letters, hidden, send
from support.postgres import Connection

ORDERS = Queue("orders", str)


def test_coroutine_function_behind_a_decorator_is_run(app: App, sender: Connection) -> None:
    seen = []

    def logged(handler: Callable[[str], Awaitable[None]]) -> Callable[[str], Awaitable[None]]:
        @functools.wraps(handler)
        def call(body: str) -> Awaitable[None]:
            return handler(body)

        return call

    @app.consumer(ORDERS)
    @logged
    async def handle(body: str) -> None:
        seen.append(body)

    send(sender, ORDERS, "tea")

    assert app.drain() == Counter(done=1)
    assert seen == ["tea"]


def test_generator_is_refused_as_a_handler(app: App) -> None:
    def handle(body: str) -> Iterator[str]:
        yield body

    with pytest.raises(ClientError, match="is a generator, which would not run"):
        app.consumer(ORDERS)(handle)


def test_handler_that_raises_stop_iteration_is_retried(
    app: App, sender: Connection, owner: Connection
) -> None:
    @app.consumer(ORDERS)
    def handle(_: str) -> None:
        next(iter([]))

    send(sender, ORDERS, "tea")

    assert app.run(once=True) == Counter(retried=1)
    ((_, count, _, reason),) = hidden(owner)
    assert (count, reason) == (1, "RuntimeError: the handler raised StopIteration")


@pytest.mark.parametrize(("after", "hours"), [(1_000_000, 12), (-5, 0)])
def test_delay_is_what_a_message_can_be_hidden_for(
    app: App, sender: Connection, owner: Connection, after: float, hours: int
) -> None:
    tries = []

    @app.consumer(ORDERS)
    def handle(body: str) -> None:
        tries.append(body)
        if len(tries) == 1:
            raise Retry(after=after)

    send(sender, ORDERS, "tea")
    app.run(once=True)

    found = [seconds for _, _, seconds, _ in hidden(owner)]
    assert len(tries) == (1 if hours else 2)
    assert [round(seconds / 3_600) for seconds in found] == ([hours] if hours else [])


def test_reason_that_no_text_can_hold_is_kept_as_far_as_it_can(
    app: App, sender: Connection, owner: Connection
) -> None:
    dead(owner)

    @app.consumer(ORDERS)
    def handle(_: str) -> None:
        raise DeadLetter("a name \udcff and a nul \0")

    send(sender, ORDERS, "tea")

    assert app.drain() == Counter({"dead-lettered": 1})
    assert dead_letters(owner, "orders") == [("tea", "a name ? and a nul  ")]


def test_rest_of_a_group_that_another_worker_has_taken_over_is_left_to_it(
    app: App, sender: Connection, owner: Connection
) -> None:
    queue = Queue("orders.fifo", str)
    seen = []

    @app.consumer(queue, extend=False, concurrency=2)
    def handle(body: str, context: Context) -> None:
        seen.append(body)
        # Its visibility timeout ends, and another worker receives both messages.
        with owner.transaction():  # This worker has room for another group, and claims too.
            owner.execute("update skipmq.message set visible_at = now() where queue_id > 0")
            owner.execute("update skipmq.message_group set available_at = now() where queue_id > 0")
            assert len(receive(owner, "orders.fifo", timeout=30)) == 2
        with context.transaction() as tx:
            tx.execute(BOUGHT, (body,))

    send(sender, queue, "one", "two")

    assert app.run(once=True)["lost"] == 1
    assert (seen, bought(owner)) == (["one"], [])
    assert [(body, count) for body, count, _, _ in hidden(owner)] == [("one", 2), ("two", 2)]


def test_late_worker_does_not_show_what_another_has_received(
    app: App, sender: Connection, owner: Connection
) -> None:
    @app.consumer(ORDERS, extend=False, retry=Retry.backoff(1, most=1))
    def handle(_: str) -> None:
        owner.execute("update skipmq.message set visible_at = now() where queue_id > 0")
        assert len(receive(sender, "orders", timeout=600)) == 1
        raise ValueError

    send(sender, ORDERS, "tea")
    app.run(once=True)

    ((_, count, seconds, _),) = hidden(owner)
    assert count == 2
    assert seconds > 500


def test_transaction_whose_deadline_cannot_be_watched_is_rolled_back_and_retried(
    app: App, sender: Connection, owner: Connection
) -> None:
    calls = []

    @app.consumer(ORDERS, retry=Retry.backoff(0, most=0))
    def handle(body: str, context: Context) -> None:
        calls.append(body)
        with context.transaction() as tx:
            tx.execute(BOUGHT, (body,))
            # No address space holds such a stack: the next thread does not start.
            threading.stack_size(1 << 46 if len(calls) == 1 else 0)

    send(sender, ORDERS, "tea")

    try:
        assert app.run(once=True) == Counter(retried=1, done=1)
    finally:
        threading.stack_size(0)
    assert calls == ["tea", "tea"]
    assert bought(owner) == ["tea"]
