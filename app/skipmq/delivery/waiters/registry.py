"""The receivers of this process that wait for a message.

A waiter registers before it polls, so that nothing sent after the poll can be missed. Of those on
one queue the first is the scout: it alone polls again when a hidden message becomes visible and, in
case a wake-up was lost, once a second. The others sleep until they are woken or become the scout.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

SCOUT_INTERVAL = 1.0
_LEAST_PAUSE = 0.001


class Waiter:
    """One waiting receiver; it holds a future and no connection."""

    __slots__ = ("_registry", "_sleep", "is_woken", "left", "queue")

    def __init__(self, registry: "Waiters", queue: str) -> None:
        self.queue = queue
        # Whether a wake-up came that no poll has followed yet.
        self.is_woken = False
        # Whether the client is gone.
        self.left = False
        self._registry = registry
        self._sleep: asyncio.Future[None] | None = None

    async def wait(self, deadline: float, next_visible_in: float | None) -> bool:
        """Sleep until there is reason to poll again; return False when the waiting is over.

        `deadline` is a time of time.monotonic, `next_visible_in` the seconds of the last poll.
        """
        remaining = deadline - monotonic()
        if remaining <= 0 or self._is_over():
            return False
        if self._registry.is_scout(self):
            due = SCOUT_INTERVAL if next_visible_in is None else next_visible_in
            remaining = min(remaining, SCOUT_INTERVAL, due)
        if not self.is_woken:
            await self._sleep_for(max(remaining, _LEAST_PAUSE))
        if self._is_over() or monotonic() >= deadline:
            return False  # A wake-up that came just now is handed on as the waiter leaves.
        self.is_woken = False
        return True

    def wake(self) -> None:
        """Make the waiter poll."""
        self.is_woken = True
        self._end_sleep()

    def leave(self) -> None:
        """End the waiting: the client is gone."""
        self.left = True
        self._end_sleep()

    def _is_over(self) -> bool:
        return self.left or self._registry.stopped

    async def _sleep_for(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._sleep = loop.create_future()
        timer = loop.call_later(seconds, self._end_sleep)
        try:
            await self._sleep
        finally:
            timer.cancel()
            self._sleep = None

    def _end_sleep(self) -> None:
        if self._sleep is not None and not self._sleep.done():
            self._sleep.set_result(None)


class Waiters:
    """All waiters of a process by queue (its ARN), at most so many; for one loop."""

    def __init__(self, most: int) -> None:
        # The waiters of a queue in the order of arrival.
        self._by_queue: dict[str, OrderedDict[Waiter, None]] = {}
        self._most = most
        self._count = 0
        self.stopped = False

    @property
    def is_full(self) -> bool:
        """Tell whether there is no room for another waiter."""
        return self._count >= self._most

    @contextmanager
    def register(self, queue: str) -> Iterator[Waiter]:
        """Count a waiter in for as long as the block runs; then hand its duties on."""
        waiter = Waiter(self, queue)
        self._by_queue.setdefault(queue, OrderedDict())[waiter] = None
        self._count += 1
        try:
            yield waiter
        finally:
            self._remove(waiter)

    def wake(self, queue: str, count: int = 1) -> None:
        """Wake up to `count` waiters of a queue, those who came first first."""
        for waiter in self._by_queue.get(queue, ()):
            if count <= 0:
                break
            if not waiter.is_woken:
                waiter.wake()
                count -= 1

    def wake_all(self) -> None:
        """Wake the scout of every queue: after a time in which wake-ups may have been lost."""
        for waiting in self._by_queue.values():
            next(iter(waiting)).wake()

    def stop(self) -> None:
        """End all waiting, now and in future: the node is stopping."""
        self.stopped = True
        for waiting in self._by_queue.values():
            for waiter in waiting:
                waiter.wake()

    def is_scout(self, waiter: Waiter) -> bool:
        """Return whether a waiter is the first of its queue."""
        return next(iter(self._by_queue[waiter.queue])) is waiter

    def count(self, queue: str | None = None) -> int:
        """Return how many wait, on one queue or in all."""
        return self._count if queue is None else len(self._by_queue.get(queue, ()))

    def queues(self) -> list[str]:
        """Return the queues that somebody waits on."""
        return list(self._by_queue)

    def _remove(self, waiter: Waiter) -> None:
        waiting = self._by_queue[waiter.queue]
        was_scout = next(iter(waiting)) is waiter
        del waiting[waiter]
        self._count -= 1
        if not waiting:
            del self._by_queue[waiter.queue]
        elif was_scout or waiter.is_woken:
            next(iter(waiting)).wake()
