"""Consumers that a test runs until the queues are empty."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Collection
from time import monotonic, sleep
from typing import Any, Protocol, TypeAlias, runtime_checkable

from skipmq.testing.messages import TestingError

_PAUSE = 0.01


@runtime_checkable
class App(Protocol):
    """A skipmq.App, which is not imported for it."""

    consumers: Any

    def adrain(self, *, timeout: float, dsn: str | None) -> Awaitable[Any]:
        """Run the consumers until no message is visible; raise what a handler raised."""


Consumer: TypeAlias = App | Callable[[], object] | Callable[[], Awaitable[object]]
# What is left in these queues, or, for None, in all but dead-letter queues, for people.
Left: TypeAlias = Callable[[Collection[str] | None], list[str]]


def drain(consumer: Consumer, left: Left, timeout: float, dsn: str) -> None:
    """Run a consumer until its queues are empty, on an event loop where it needs one."""
    _check_consumer(consumer)
    if isinstance(consumer, App) or inspect.iscoroutinefunction(consumer):
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            asyncio.run(adrain(consumer, left, timeout, dsn))
            return
        raise TestingError("an event loop runs here: `await skipmq.adrain(…)`")
    until = monotonic() + timeout
    while found := left(None):
        _check(until, timeout, found)
        result = consumer()
        if inspect.iscoroutine(result):
            asyncio.run(result)
        sleep(_PAUSE)


async def adrain(consumer: Consumer, left: Left, timeout: float, dsn: str) -> None:  # noqa: ASYNC109 - that of messages.
    """Do what `drain` does on the caller's event loop."""
    _check_consumer(consumer)
    names = None
    if isinstance(consumer, App):
        names = {each.queue.name for each in consumer.consumers}
    until = monotonic() + timeout
    while found := await asyncio.to_thread(left, names):
        _check(until, timeout, found)
        if isinstance(consumer, App):
            try:
                await consumer.adrain(timeout=max(until - monotonic(), _PAUSE), dsn=dsn)
            except TimeoutError:
                _check(monotonic(), timeout, await asyncio.to_thread(left, names))
        else:
            result = consumer()
            if inspect.isawaitable(result):
                await result
        await asyncio.sleep(_PAUSE)


def _check_consumer(consumer: object) -> None:
    if not isinstance(consumer, App) and not callable(consumer):
        raise TypeError(
            "drain takes a function, a coroutine function or a skipmq.App, whose queues are then"
            f" empty, and no {type(consumer).__name__}: {consumer!r}"
        )


def _check(until: float, timeout: float, found: list[str]) -> None:
    if found and monotonic() >= until:
        raise TestingError(
            f"after {timeout:g} s there are still messages: {', '.join(found)}."
            " Those in flight or delayed are visible after clock.advance()"
        )
