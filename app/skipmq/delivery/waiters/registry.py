"""The receivers of this process that wait for a message.

A waiter registers before it polls, so that nothing sent after the poll can be missed. Of those on
one queue the first is the scout: it alone polls again when a hidden message becomes visible and, in
case a wake-up was lost, once a second. The others sleep until they are woken or become the scout;
who comes while the queue is known to be empty sleeps at once.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skipmq.tracing import Tracing

SCOUT_INTERVAL = 1.0
_LEAST_PAUSE = 0.001


class _Line:
    """Those who wait on one queue."""

    __slots__ = ("quiet_until", "waiters", "wakes")

    def __init__(self) -> None:
        # In the order of arrival.
        self.waiters: OrderedDict[Waiter, None] = OrderedDict()
        # How often one of them should have been woken.
        self.wakes = 0
        # Until when, as a time of time.monotonic, a poll would find nothing that wakes nobody.
        self.quiet_until = 0.0

    @property
    def scout(self) -> "Waiter":
        return next(iter(self.waiters))

    def disturb(self) -> None:
        """Note that there may be something by now."""
        self.wakes += 1
        self.quiet_until = 0.0


class Waiter:
    """One waiting receiver; it holds a future and no connection."""

    __slots__ = ("_line", "_polled_at", "_registry", "_sleep", "_wakes", "is_woken", "left", "span")

    def __init__(self, registry: "Waiters", line: _Line) -> None:
        self._line = line
        self._polled_at = 0.0
        self._wakes = 0
        # Whether a wake-up came that no poll has followed yet.
        self.is_woken = False
        # Whether the client is gone.
        self.left = False
        self._registry = registry
        self._sleep: asyncio.Future[None] | None = None
        # Of the trace, from its first sleep on.
        self.span: Any = None

    @property
    def is_scout(self) -> bool:
        """Return whether this is the first of its queue."""
        return self._line.scout is self

    def need_not_poll(self) -> bool:
        """Tell whether another one on the queue has just found nothing, and nothing came since."""
        return monotonic() < self._line.quiet_until

    def poll_begins(self) -> None:
        """Note that what comes from now on may be missed by the waiter's poll."""
        self._polled_at, self._wakes = monotonic(), self._line.wakes

    def poll_found_nothing(self, next_visible_in: float | None) -> None:
        """Note that the poll that began last found nothing."""
        if self._line.wakes == self._wakes:
            quiet = SCOUT_INTERVAL if next_visible_in is None else next_visible_in
            self._line.quiet_until = self._polled_at + min(quiet, SCOUT_INTERVAL)

    async def wait(self, deadline: float, next_visible_in: float | None) -> bool:
        """Sleep until there is reason to poll again; return False when the waiting is over.

        `deadline` is a time of time.monotonic, `next_visible_in` the seconds of the last poll.
        """
        remaining = deadline - monotonic()
        if remaining <= 0 or self._is_over():
            return False
        if self.is_scout:
            due = SCOUT_INTERVAL if next_visible_in is None else next_visible_in
            remaining = min(remaining, SCOUT_INTERVAL, due)
        if not self.is_woken:
            if self._registry.tracing is not None and self.span is None:
                self.span = self._registry.tracing.wait()
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

    def __init__(self, most: int, tracing: "Tracing | None" = None) -> None:
        # Only queues that somebody waits on.
        self._lines: dict[str, _Line] = {}
        self._most = most
        self._count = 0
        self.tracing = tracing
        self.stopped = False

    @property
    def is_full(self) -> bool:
        """Tell whether there is no room for another waiter."""
        return self._count >= self._most

    @contextmanager
    def register(self, queue: str) -> Iterator[Waiter]:
        """Count a waiter in for as long as the block runs; then hand its duties on."""
        line = self._lines.get(queue)
        if line is None:
            line = self._lines[queue] = _Line()
        waiter = Waiter(self, line)
        line.waiters[waiter] = None
        self._count += 1
        try:
            yield waiter
        finally:
            self._remove(waiter, queue, line)

    def wake(self, queue: str, count: int = 1) -> None:
        """Wake up to `count` waiters of a queue, those who came first first."""
        line = self._lines.get(queue)
        if line is None:
            return
        line.disturb()
        for waiter in line.waiters:
            if count <= 0:
                break
            if not waiter.is_woken:
                waiter.wake()
                count -= 1

    def wake_all(self) -> None:
        """Wake the scout of every queue: after a time in which wake-ups may have been lost."""
        for line in self._lines.values():
            line.disturb()
            line.scout.wake()

    def stop(self) -> None:
        """End all waiting, now and in future: the node is stopping."""
        self.stopped = True
        for line in self._lines.values():
            for waiter in line.waiters:
                waiter.wake()

    def count(self, queue: str | None = None) -> int:
        """Return how many wait, on one queue or in all."""
        if queue is None:
            return self._count
        line = self._lines.get(queue)
        return 0 if line is None else len(line.waiters)

    def queues(self) -> list[str]:
        """Return the queues that somebody waits on."""
        return list(self._lines)

    def _remove(self, waiter: Waiter, queue: str, line: _Line) -> None:
        was_scout = waiter.is_scout
        del line.waiters[waiter]
        self._count -= 1
        if waiter.span is not None:
            waiter.span.end()
        if not line.waiters:
            del self._lines[queue]
        elif was_scout or waiter.is_woken:
            line.scout.wake()
