"""The receivers of this process that wait for a message.

A waiter registers before it looks, so that nothing sent after the look can be missed. Of those on
one queue the first is the scout: it alone looks again when a hidden message becomes visible and, in
case a wake-up was lost, once a second. The others sleep until they are woken or become the scout.
"""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

SCOUT_INTERVAL = 1.0


class Waiter:
    """One waiting receiver; it holds a thread and no connection."""

    __slots__ = ("_event", "_registry", "queue")

    def __init__(self, registry: "Waiters", queue: str) -> None:
        self.queue = queue
        self._registry = registry
        self._event = threading.Event()

    def wait(self, deadline: float, next_visible_in: float | None) -> bool:
        """Sleep until there is reason to look again; return False when the waiting is over.

        `deadline` is a reading of time.monotonic, `next_visible_in` the seconds of the last look.
        """
        remaining = deadline - monotonic()
        if remaining <= 0 or self._registry.stopped:
            return False
        if self._registry.is_scout(self):
            due = SCOUT_INTERVAL if next_visible_in is None else next_visible_in
            timeout = min(remaining, SCOUT_INTERVAL, due)
        else:
            timeout = remaining
        self._event.wait(max(timeout, 0.001))
        if self._registry.stopped or monotonic() >= deadline:
            return False  # A wake-up that came just now is handed on as the waiter leaves.
        self._event.clear()
        return True

    def wake(self) -> None:
        """Make the waiter look."""
        self._event.set()

    @property
    def was_woken(self) -> bool:
        """Return whether a wake-up came that no look has followed yet."""
        return self._event.is_set()


class Waiters:
    """All waiters of a process by queue (its ARN); safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_queue: dict[str, deque[Waiter]] = {}
        self.stopped = False

    @contextmanager
    def register(self, queue: str) -> Iterator[Waiter]:
        """Count a waiter in for as long as the block runs; then hand its duties on."""
        waiter = Waiter(self, queue)
        with self._lock:
            self._by_queue.setdefault(queue, deque()).append(waiter)
        try:
            yield waiter
        finally:
            self._leave(waiter)

    def wake(self, queue: str, count: int = 1) -> None:
        """Wake up to `count` waiters of a queue, those who came first first."""
        with self._lock:
            for waiter in self._by_queue.get(queue, ()):
                if count <= 0:
                    break
                if not waiter.was_woken:
                    waiter.wake()
                    count -= 1

    def wake_all(self) -> None:
        """Wake the scout of every queue: after a time in which wake-ups may have been lost."""
        with self._lock:
            for waiting in self._by_queue.values():
                waiting[0].wake()

    def stop(self) -> None:
        """End all waiting, now and in future: the node is stopping."""
        self.stopped = True
        with self._lock:
            for waiting in self._by_queue.values():
                for waiter in waiting:
                    waiter.wake()

    def is_scout(self, waiter: Waiter) -> bool:
        """Return whether a waiter is the first of its queue."""
        with self._lock:
            return self._by_queue[waiter.queue][0] is waiter

    def count(self, queue: str | None = None) -> int:
        """Return how many wait, on one queue or in all."""
        with self._lock:
            if queue is not None:
                return len(self._by_queue.get(queue, ()))
            return sum(map(len, self._by_queue.values()))

    def queues(self) -> list[str]:
        """Return the queues that somebody waits on."""
        with self._lock:
            return list(self._by_queue)

    def _leave(self, waiter: Waiter) -> None:
        with self._lock:
            waiting = self._by_queue[waiter.queue]
            was_scout = waiting[0] is waiter
            waiting.remove(waiter)
            if not waiting:
                del self._by_queue[waiter.queue]
            elif was_scout or waiter.was_woken:
                waiting[0].wake()
