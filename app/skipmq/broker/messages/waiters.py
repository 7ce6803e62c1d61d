"""The waiting receivers of this process.

A waiter registers before it polls, so that no message sent after the poll can be missed. While
receivers wait on a queue, a timer makes the first of them poll at least every POLL_INTERVAL, and
when a hidden message becomes visible. The others sleep until they are woken; one that registers
while the queue is known to be empty sleeps at once.

There is always such a timer, or a waiter that is about to poll. Therefore a waiter that was woken
and ends before a poll of its own has found the queue empty wakes the first of the others.
"""

import asyncio
from collections import OrderedDict, deque
from random import random
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from skipmq.telemetry.tracing import Tracing

# A message that was sent by SQL, or whose notification was lost, is found within this time.
POLL_INTERVAL = 1.0
# Seconds by which timers of the loop may fire early.
_TIMER_SLACK = 0.002
# Seconds for which a new waiter relies on the poll of the first one, which is due.
DUE_SECONDS = 0.1
# Receivers that start together would end together, every time. So each waits less by a random time:
# up to SPREAD_SECONDS for each waiter beyond the first SPREAD_BEYOND, and at most SPREAD_SHARE.
SPREAD_SECONDS, SPREAD_BEYOND, SPREAD_SHARE = 0.0002, 1_000, 0.05
# The waiters to end in one iteration of the loop, or 1/ENDED_SHARE of those due if that is more:
# other requests run in between, and no long poll ends much too late.
ENDED_PER_TURN, ENDED_SHARE = 8, 64


class _Queue:
    __slots__ = ("_due_at", "_timer", "arn", "quiet_until", "waiters", "wakes")

    def __init__(self, arn: str) -> None:
        self.arn = arn
        # In order of arrival.
        self.waiters: OrderedDict[Waiter, None] = OrderedDict()
        # The number of wake-ups so far.
        self.wakes = 0
        # The time of time.monotonic until which only the first waiter polls, unless one is woken.
        self.quiet_until = 0.0
        # The timer of the first waiter's next poll.
        self._timer: asyncio.TimerHandle | None = None
        self._due_at = 0.0

    @property
    def has_timer(self) -> bool:
        return self._timer is not None

    def wake_first(self) -> None:
        next(iter(self.waiters)).wake()

    def end_quiet(self) -> None:
        """Record a wake-up: the queue may have a message."""
        self.wakes += 1
        self.quiet_until = 0.0

    def poll_at(self, due_at: float) -> None:
        """Have the first waiter poll at a time of time.monotonic, or earlier."""
        if self._timer is not None:
            if self._due_at <= due_at:
                return
            self._timer.cancel()
        pause = max(0.0, due_at - monotonic()) + _TIMER_SLACK
        self._timer = asyncio.get_running_loop().call_later(pause, self._poll)
        self._due_at = due_at

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _poll(self) -> None:
        self._timer = None
        self.wake_first()


class Waiter:
    """A waiting receiver, for the duration of a `with` block.

    It holds a future and no connection.
    """

    __slots__ = (
        "_must_wake_next",
        "_owner",
        "_polled_at",
        "_queue",
        "_registry",
        "_sleep",
        "_wakes",
        "has_slot",
        "is_cancelled",
        "is_woken",
        "span",
    )

    def __init__(self, registry: "Waiters", queue: _Queue, owner: str, *, has_slot: bool) -> None:
        # Whether it may sleep.
        self.has_slot = has_slot
        # Whether it was woken and has not polled since.
        self.is_woken = False
        # Whether the client has disconnected, or another owner got the slot.
        self.is_cancelled = False
        # The span of the wait, from its first sleep on.
        self.span: Any = None
        self._registry = registry
        self._queue = queue
        self._owner = owner
        self._polled_at = 0.0
        self._wakes = 0
        # Whether it was woken or started to poll, and has not found the queue empty since.
        self._must_wake_next = False
        self._sleep: asyncio.Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._registry.remove(self, self._queue, self._owner)
        if self.span is not None:
            self.span.end()

    @property
    def must_wake_next(self) -> bool:
        """Return whether another waiter has to poll if this one ends now."""
        return self.is_woken or self._must_wake_next

    def may_skip_poll(self) -> bool:
        """Return whether a poll has just found the queue empty, and no wake-up came since."""
        return monotonic() < self._queue.quiet_until

    def begin_poll(self) -> None:
        """Record the start of a poll, which may miss messages sent from now on."""
        self._polled_at, self._wakes = monotonic(), self._queue.wakes
        self._must_wake_next = True

    def end_empty_poll(self, next_visible_in: float | None) -> None:
        """Record that the poll found no message, and schedule the next poll.

        `next_visible_in` is in seconds; None: not within POLL_INTERVAL.
        """
        quiet = POLL_INTERVAL if next_visible_in is None else min(next_visible_in, POLL_INTERVAL)
        until = self._polled_at + quiet
        if self._queue.wakes == self._wakes:
            self._queue.quiet_until = until + DUE_SECONDS
        self._queue.poll_at(until)
        self._must_wake_next = False

    async def wait(self, deadline: float) -> bool:
        """Sleep until woken to poll; return False when the wait has ended.

        `deadline` is a time of time.monotonic.
        """
        remaining = deadline - monotonic()
        if remaining <= 0 or self._is_over():
            return False
        if not self.is_woken:
            if self._registry.tracing is not None and self.span is None:
                self.span = self._registry.tracing.wait()
            loop = asyncio.get_running_loop()
            self._sleep = loop.create_future()
            timer = loop.call_later(remaining + _TIMER_SLACK, self._registry.end, self)
            try:
                await self._sleep
            finally:
                timer.cancel()
                self._sleep = None
        if not self.is_woken or self._is_over() or monotonic() >= deadline:
            return False  # Waiters.remove passes a late wake-up on.
        self.is_woken, self._must_wake_next = False, True
        return True

    def wake(self) -> None:
        """Make the waiter poll."""
        self.is_woken = True
        self.end_sleep()

    def cancel(self) -> None:
        """End the wait: the client has disconnected, or another owner gets the slot."""
        self.is_cancelled = True
        self.end_sleep()

    def _is_over(self) -> bool:
        return self.is_cancelled or self._registry.stopped

    def end_sleep(self) -> None:
        """Resume the waiter if it sleeps."""
        if self._sleep is not None and not self._sleep.done():
            self._sleep.set_result(None)


class Waiters:
    """All waiters of a process by queue (its ARN), with `slots` for those that sleep; for one loop.

    The owner of a waiter is the access key that signed its request. An owner gets any free slot.
    When none is free, an owner that has less than an equal share of all slots gets that of the
    newest waiter of the owner that has most.
    """

    def __init__(self, slots: int, tracing: "Tracing | None" = None) -> None:
        # Only queues that receivers wait on.
        self._queues: dict[str, _Queue] = {}
        self._slots = slots
        self._count = 0
        # The waiters with a slot, by owner and in order of arrival.
        self._holders: dict[str, OrderedDict[Waiter, None]] = {}
        self._taken = 0
        # The waiters that have timed out and still sleep.
        self._ending: deque[Waiter] = deque()
        self.tracing = tracing
        self.stopped = False

    def register(self, arn: str, owner: str = "") -> Waiter:
        """Add a waiter, which removes itself at the end of its `with` block."""
        queue = self._queues.get(arn)
        if queue is None:
            queue = self._queues[arn] = _Queue(arn)
        waiter = Waiter(self, queue, owner, has_slot=self._free_slot(owner))
        queue.waiters[waiter] = None
        self._count += 1
        if waiter.has_slot:
            self._holders.setdefault(owner, OrderedDict())[waiter] = None
            self._taken += 1
        return waiter

    def remove(self, waiter: Waiter, queue: _Queue, owner: str) -> None:
        """Remove a waiter, and wake another one if it has to poll instead."""
        self._release_slot(owner, waiter)
        del queue.waiters[waiter]
        self._count -= 1
        if not queue.waiters:
            queue.close()
            del self._queues[queue.arn]
        elif waiter.must_wake_next or not queue.has_timer:
            queue.quiet_until = 0.0
            queue.wake_first()

    def spread(self, seconds: float) -> float:
        """Return a wait time, shortened at random if there are many waiters."""
        spread = SPREAD_SECONDS * max(0, self._count - SPREAD_BEYOND)
        return seconds - min(spread, SPREAD_SHARE * seconds) * random()  # noqa: S311 - no secret.

    def end(self, waiter: Waiter) -> None:
        """End the sleep of a waiter that has timed out, after those before it."""
        if not self._ending:
            asyncio.get_running_loop().call_soon(self._end_some)
        self._ending.append(waiter)

    def _end_some(self) -> None:
        number = max(ENDED_PER_TURN, len(self._ending) // ENDED_SHARE)
        for _ in range(min(len(self._ending), number)):
            self._ending.popleft().end_sleep()
        if self._ending:
            asyncio.get_running_loop().call_soon(self._end_some)

    def _free_slot(self, owner: str) -> bool:
        """Return whether an owner gets a slot; end another owner's wait if necessary."""
        if self._taken < self._slots:
            return True
        owners = len(self._holders) + (owner not in self._holders)
        if (len(self._holders.get(owner, ())) + 1) * owners > self._slots:
            return False
        # As this owner is below its share, another one is above it.
        largest = max(self._holders, key=lambda each: len(self._holders[each]))
        newest = next(reversed(self._holders[largest]))
        self._release_slot(largest, newest)
        newest.cancel()
        return True

    def _release_slot(self, owner: str, waiter: Waiter) -> None:
        held = self._holders.get(owner)
        if held is None or waiter not in held:
            return
        del held[waiter]
        self._taken -= 1
        if not held:
            del self._holders[owner]

    def wake(self, arn: str, count: int = 1) -> None:
        """Wake up to `count` waiters of a queue, in order of arrival."""
        queue = self._queues.get(arn)
        if queue is None:
            return
        queue.end_quiet()
        for waiter in queue.waiters:
            if count <= 0:
                break
            if not waiter.is_woken:
                waiter.wake()
                count -= 1

    def wake_all(self) -> None:
        """Wake one waiter of every queue, after a time in which wake-ups may have been lost."""
        for queue in self._queues.values():
            queue.end_quiet()
            queue.wake_first()

    def stop(self) -> None:
        """End all waits, present and future, since the node is stopping."""
        self.stopped = True
        for queue in self._queues.values():
            for waiter in queue.waiters:
                waiter.wake()

    def count(self, arn: str | None = None) -> int:
        """Return the number of waiters of one queue or of all."""
        if arn is None:
            return self._count
        queue = self._queues.get(arn)
        return 0 if queue is None else len(queue.waiters)

    def queues(self) -> list[str]:
        """Return the queues that receivers wait on."""
        return list(self._queues)
