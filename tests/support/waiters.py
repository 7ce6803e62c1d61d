"""Waiters, and what they do."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from time import monotonic

from skipmq.broker.messages.waiters import Waiter, Waiters
from support.loop import eventually

SOON = 60.0


def soon() -> float:
    return monotonic() + SOON


async def asleep(waiter: Waiter) -> asyncio.Task[bool]:
    """Have a waiter wait, and return what tells whether it shall poll again."""
    task = asyncio.create_task(waiter.wait(soon()))
    await eventually(lambda: waiter._sleep is not None)  # noqa: SLF001
    return task


def polled(waiter: Waiter, next_visible_in: float | None = None) -> None:
    """Have a waiter poll and find nothing."""
    waiter.begin_poll()
    waiter.end_empty_poll(next_visible_in)


@contextmanager
def held(waiters: Waiters, **owners: int) -> Iterator[dict[str, list[Waiter]]]:
    """Register so many waiters of each owner, one owner after the other."""
    with ExitStack() as stack:
        yield {
            owner: [stack.enter_context(waiters.register("q", owner)) for _ in range(number)]
            for owner, number in owners.items()
        }
