"""The receivers of this process that wait for a message.

A waiter registers before it polls, so that no message sent after the poll can be missed. While
receivers wait on a queue it is polled at least once each POLL_INTERVAL, and when a hidden message
becomes visible: by the first of them, as a timer of the queue says. The others sleep until they are
woken; one that arrives while the queue is known to be empty sleeps at once.

There is always such a timer, or a waiter that is about to poll. A waiter that was woken and leaves
before a poll of its own has found the queue empty therefore wakes the first of the others.
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
# Timers of the loop are early by up to so much, in seconds.
_TIMER_SLACK = 0.002
# How long those that arrive leave a poll that is due to the first waiter, which then makes it.
DUE_SECONDS = 0.1
# Receivers that came together would ask again together, every time. So the waiting of each ends
# earlier by a random time: of up to this much for each waiter beyond the first so many, and at most
# this share of the time that it asked for.
SPREAD_SECONDS, SPREAD_BEYOND, SPREAD_SHARE = 0.0002, 1_000, 0.05
# Of those whose time is over, so many end in a turn of the loop, or this share of them if that is
# more: others' requests come in between, and yet no long poll ends much too late on a busy loop.
ENDED_PER_TURN, ENDED_SHARE = 8, 64


class _Queue:
    """The waiters of one queue."""

    __slots__ = ("_due_at", "_timer", "arn", "quiet_until", "waiters", "wakes")

    def __init__(self, arn: str) -> None:
        self.arn = arn
        # In the order of arrival.
        self.waiters: OrderedDict[Waiter, None] = OrderedDict()
        # The number of wake-ups that came for it.
        self.wakes = 0
        # Until when, as a time of time.monotonic, only the first need poll, unless one is woken.
        self.quiet_until = 0.0
        # What wakes the first waiter then.
        self._timer: asyncio.TimerHandle | None = None
        self._due_at = 0.0

    @property
    def has_timer(self) -> bool:
        return self._timer is not None

    def wake_first(self) -> None:
        next(iter(self.waiters)).wake()

    def disturb(self) -> None:
        """Note that there may be a message by now."""
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
    """One waiting receiver, from the begin to the end of a `with` block.

    It holds a future and no connection.
    """

    __slots__ = (
        "_has_to_pass_on",
        "_owner",
        "_polled_at",
        "_queue",
        "_registry",
        "_sleep",
        "_wakes",
        "has_place",
        "is_cancelled",
        "is_woken",
        "span",
    )

    def __init__(self, registry: "Waiters", queue: _Queue, owner: str, *, has_place: bool) -> None:
        # Whether it may wait: otherwise there is no room for its owner.
        self.has_place = has_place
        # Whether a wake-up came that no poll has followed yet.
        self.is_woken = False
        # Whether the client has disconnected, or another owner has the place.
        self.is_cancelled = False
        # Of the trace, from its first sleep on.
        self.span: Any = None
        self._registry = registry
        self._queue = queue
        self._owner = owner
        self._polled_at = 0.0
        self._wakes = 0
        # Whether it was woken or began to poll, and has not found the queue empty since.
        self._has_to_pass_on = False
        self._sleep: asyncio.Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._registry.remove(self, self._queue, self._owner)
        if self.span is not None:
            self.span.end()

    @property
    def has_to_pass_on(self) -> bool:
        """Return whether another one has to poll in its place when it leaves now."""
        return self.is_woken or self._has_to_pass_on

    def need_not_poll(self) -> bool:
        """Return whether another waiter has just found the queue empty, and nothing came since."""
        return monotonic() < self._queue.quiet_until

    def poll_begins(self) -> None:
        """Note that what comes from now on may be missed by the waiter's poll."""
        self._polled_at, self._wakes = monotonic(), self._queue.wakes
        self._has_to_pass_on = True

    def poll_found_nothing(self, next_visible_in: float | None) -> None:
        """Note that the poll that began last found nothing, and what it said of the next message.

        `next_visible_in` is in seconds; None: not within POLL_INTERVAL.
        """
        quiet = POLL_INTERVAL if next_visible_in is None else min(next_visible_in, POLL_INTERVAL)
        until = self._polled_at + quiet
        if self._queue.wakes == self._wakes:
            self._queue.quiet_until = until + DUE_SECONDS
        self._queue.poll_at(until)
        self._has_to_pass_on = False

    async def wait(self, deadline: float) -> bool:
        """Sleep until there is reason to poll; return False when the waiting is over.

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
            return False  # A wake-up that came just now is passed on as the waiter leaves.
        self.is_woken, self._has_to_pass_on = False, True
        return True

    def wake(self) -> None:
        """Make the waiter poll."""
        self.is_woken = True
        self.end_sleep()

    def cancel(self) -> None:
        """End the waiting: the client has disconnected, or another owner gets the place."""
        self.is_cancelled = True
        self.end_sleep()

    def _is_over(self) -> bool:
        return self.is_cancelled or self._registry.stopped

    def end_sleep(self) -> None:
        """Make the waiter see what has changed, if it sleeps."""
        if self._sleep is not None and not self._sleep.done():
            self._sleep.set_result(None)


class Waiters:
    """All waiters of a process by queue (its ARN), at most so many; for one loop.

    Each has an owner, the access key that its request was signed with. While there is room an owner
    gets every place that it asks for. Then an owner below its share, an equal part of all places,
    gets the place of the newest waiter of the owner that has most.
    """

    def __init__(self, most: int, tracing: "Tracing | None" = None) -> None:
        # Only queues that receivers wait on.
        self._queues: dict[str, _Queue] = {}
        self._most = most
        self._count = 0
        # Those that have a place, of each owner in the order of arrival.
        self._places: dict[str, OrderedDict[Waiter, None]] = {}
        self._taken = 0
        # Those whose time is over, and which still sleep.
        self._ending: deque[Waiter] = deque()
        self.tracing = tracing
        self.stopped = False

    def register(self, arn: str, owner: str = "") -> Waiter:
        """Count a waiter in, which counts itself out at the end of its `with` block."""
        queue = self._queues.get(arn)
        if queue is None:
            queue = self._queues[arn] = _Queue(arn)
        waiter = Waiter(self, queue, owner, has_place=self._make_room(owner))
        queue.waiters[waiter] = None
        self._count += 1
        if waiter.has_place:
            self._places.setdefault(owner, OrderedDict())[waiter] = None
            self._taken += 1
        return waiter

    def remove(self, waiter: Waiter, queue: _Queue, owner: str) -> None:
        """Count a waiter out, and have another one poll if it has not."""
        self._leave_place(owner, waiter)
        del queue.waiters[waiter]
        self._count -= 1
        if not queue.waiters:
            queue.close()
            del self._queues[queue.arn]
        elif waiter.has_to_pass_on or not queue.has_timer:
            queue.quiet_until = 0.0
            queue.wake_first()

    def seconds_for(self, wanted: float) -> float:
        """Return how long a receiver waits that asked for so many seconds: where many do, less."""
        spread = SPREAD_SECONDS * max(0, self._count - SPREAD_BEYOND)
        return wanted - min(spread, SPREAD_SHARE * wanted) * random()  # noqa: S311 - no secret.

    def end(self, waiter: Waiter) -> None:
        """End the sleep of a waiter whose time is over, in turn."""
        if not self._ending:
            asyncio.get_running_loop().call_soon(self._end_some)
        self._ending.append(waiter)

    def _end_some(self) -> None:
        number = max(ENDED_PER_TURN, len(self._ending) // ENDED_SHARE)
        for _ in range(min(len(self._ending), number)):
            self._ending.popleft().end_sleep()
        if self._ending:
            asyncio.get_running_loop().call_soon(self._end_some)

    def _make_room(self, owner: str) -> bool:
        """Return whether there is a place for an owner; end the waiting of another for it."""
        if self._taken < self._most:
            return True
        owners = len(self._places) + (owner not in self._places)
        if (len(self._places.get(owner, ())) + 1) * owners > self._most:
            return False
        # As this one is below its share, another one is above it.
        largest = max(self._places, key=lambda each: len(self._places[each]))
        newest = next(reversed(self._places[largest]))
        self._leave_place(largest, newest)
        newest.cancel()
        return True

    def _leave_place(self, owner: str, waiter: Waiter) -> None:
        held = self._places.get(owner)
        if held is None or waiter not in held:
            return
        del held[waiter]
        self._taken -= 1
        if not held:
            del self._places[owner]

    def wake(self, arn: str, count: int = 1) -> None:
        """Wake up to `count` waiters of a queue, the first that came first."""
        queue = self._queues.get(arn)
        if queue is None:
            return
        queue.disturb()
        for waiter in queue.waiters:
            if count <= 0:
                break
            if not waiter.is_woken:
                waiter.wake()
                count -= 1

    def wake_all(self) -> None:
        """Wake a waiter of every queue: after a time in which wake-ups may have been lost."""
        for queue in self._queues.values():
            queue.disturb()
            queue.wake_first()

    def stop(self) -> None:
        """End all waiting, now and in future: the node is stopping."""
        self.stopped = True
        for queue in self._queues.values():
            for waiter in queue.waiters:
                waiter.wake()

    def count(self, arn: str | None = None) -> int:
        """Return how many wait, on one queue or in all."""
        if arn is None:
            return self._count
        queue = self._queues.get(arn)
        return 0 if queue is None else len(queue.waiters)

    def queues(self) -> list[str]:
        """Return the queues that receivers wait on."""
        return list(self._queues)
