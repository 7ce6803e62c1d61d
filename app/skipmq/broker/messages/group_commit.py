"""Group commit: requests that arrive while a transaction runs share the next one.

One transaction of each key runs at a time, for all queues. A request that finds none starts one,
together with all that arrive in the same iteration of the event loop.

Under load a transaction waits for more requests, as with `commit_delay` and `commit_siblings` of
PostgreSQL: while fewer wait than the average group has, and no longer than a transaction takes. A
client alone never waits.

No queue delays another: where more requests wait than a transaction takes, queues have turns; and
one that fills transactions by itself, is locked, damaged or gone, or takes long, is served apart
for some seconds, in transactions of its own: for a hundred times as long as it took, so that a
queue delays the others for a hundredth of the time; but for five minutes at most, since a stall of
the whole database looks alike.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextvars import Context
from itertools import chain
from operator import attrgetter
from time import monotonic
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from skipmq.protocol import errors

if TYPE_CHECKING:
    from skipmq.telemetry.tracing import Transactions

Key = TypeVar("Key", bound=Hashable)
Request = TypeVar("Request")
Result = TypeVar("Result")
# A function that runs requests of a key in one transaction, those of a queue one after another, and
# returns their results; the error of one of them is its result. One of several queues whose result
# is errors.Locked is run again, in a transaction of its queue.
Run = Callable[[Key, Sequence[Request], float], Awaitable[Sequence[Result | errors.SqsError]]]
# The longest such wait, in seconds; a group of this many requests does not wait.
_LONGEST_DELAY, _ENOUGH = 0.002, 16
# The weight of the last transaction in the average of the seconds that they take.
_WEIGHT = 0.125
# Seconds between two checks for requests that time out.
_INTERVAL = 1.0
# Seconds for which a queue is served apart, at least and at most, and how many times as long as it
# took.
_APART_SECONDS, _LONGEST_APART, _APART_TIMES = 5.0, 300.0, 100
# How many requests of one queue gain nothing by sharing a transaction.
_MANY = 32
# The errors that no other queue has.
_OF_ONE_QUEUE = (errors.QueueMoved, errors.DatabaseDamaged, errors.Locked)


class _Entry(msgspec.Struct, Generic[Request, Result], frozen=True):
    request: Request
    queue_id: int
    weight: int
    deadline: float
    # The time at which the request times out, even if its transaction continues.
    expires_at: float
    result: asyncio.Future[Result]
    # The span of the request, with tracing.
    span: Any


_QUEUE = attrgetter("queue_id")


class Load:
    """The requests that groups serve now, and the number of groups."""

    __slots__ = ("groups", "requests")

    def __init__(self) -> None:
        self.requests = self.groups = 0


class _Waiting(Generic[Request, Result]):
    """The waiting entries of a group, the sum of their weights, and the number of who serves it.

    A group is a key's, or a key's and a queue's.
    """

    __slots__ = ("delay", "enough", "entries", "group", "loop", "served_by", "weight")

    def __init__(self, loop: asyncio.AbstractEventLoop, group: tuple[Any, int]) -> None:
        self.loop, self.group = loop, group
        self.entries: list[_Entry[Request, Result]] = []
        self.weight = self.served_by = 0
        # Resolved when there are enough entries, while a transaction waits for them.
        self.delay: asyncio.Future[None] | None = None
        self.enough = 0

    async def more(self, enough: int, seconds: float) -> None:
        """Wait until there are enough entries, for some seconds at most."""
        self.enough, self.delay = enough, self.loop.create_future()
        timer = self.loop.call_later(seconds, self.begin)
        try:
            await self.delay
        finally:
            self.delay = None
            timer.cancel()

    def begin(self) -> None:
        """End the wait for more."""
        if self.delay is not None and not self.delay.done():
            self.delay.set_result(None)

    def take(self, most: int) -> list[_Entry[Request, Result]]:
        """Remove and return entries, by queue, whose weights add up to `most`; one at least."""
        entries = [entry for entry in self.entries if not entry.result.done()]
        self.entries, weight, self.weight = [], self.weight, 0
        if weight > most:
            entries, self.entries = _in_turn(entries, most)
            self.weight = sum([entry.weight for entry in self.entries])
        entries.sort(key=_QUEUE)
        return entries


class GroupCommit(Generic[Key, Request, Result]):
    """A queue of requests of one kind that runs many in one call of `run`; for one loop.

    The weights of a call's requests add up to `max_weight` at most, unless it has one request. A
    transaction may wait until the latest deadline of its requests; each request times out at its
    own deadline or after `seconds`, whichever is later.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - all but the first two have defaults.
        self,
        run: Run[Key, Request, Result],
        max_weight: int,
        observe: Callable[[int], None] = lambda _: None,
        traces: "Transactions | None" = None,
        seconds: float = 60.0,
        discard: Callable[[int, Result], None] = lambda _queue_id, _result: None,
        overtaken_after: float | None = None,
        load: Load | None = None,
    ) -> None:
        self._run = run
        self._load = load or Load()
        # The seconds that a transaction takes on average.
        self._took = 0.0
        # Seconds that others wait for a transaction of one queue; None: as long as it takes.
        self._overtaken_after = overtaken_after
        # Called with the queue and the result of a request that was cancelled or has timed out.
        self._discard = discard
        self._seconds = seconds
        self._max_weight = max_weight
        # Called with the number of requests of each call.
        self._observe = observe
        self._traces = traces
        # An empty context, so that the first request's span is not current for all others.
        self._context = None if traces is None else Context()
        # The waiting entries of each group that is being served.
        self._waiting: dict[tuple[Key, int], _Waiting[Request, Result]] = {}
        self._running: dict[asyncio.Task[None] | None, Sequence[_Entry[Request, Result]]] = {}
        # The queues that are served apart, and until when.
        self._apart: dict[int, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        # The timer that fails requests that time out, while any key is being served.
        self._expiry: asyncio.TimerHandle | None = None

    def submit(
        self, key: Key, request: Request, weight: int, deadline: float, queue_id: int = 0
    ) -> asyncio.Future[Result]:
        """Return the future result of a request; requests of a queue run in order of arrival.

        It raises the error of `run` for this request, and not one that another request of the call
        causes. A request that is cancelled while it waits is not run. Raises
        errors.ServiceUnavailable when it times out while it waits, errors.OutcomeUnknown when it
        times out while it runs.
        """
        result: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        now = monotonic()
        group = key, queue_id if self._apart.get(queue_id, 0.0) > now else 0
        span = None if self._traces is None else self._traces.origin()
        expires_at = max(deadline, now + self._seconds)
        entry = _Entry(request, queue_id, weight, deadline, expires_at, result, span)
        self._add(group, entry)
        return result

    def set_apart(self, queue_id: int, took: float = 0.0) -> None:
        """Serve a queue apart from others, by the seconds for which it delayed them."""
        seconds = min(max(_APART_SECONDS, took * _APART_TIMES), _LONGEST_APART)
        until = monotonic() + seconds
        self._apart[queue_id] = max(until, self._apart.get(queue_id, 0.0))

    def _add(self, group: tuple[Key, int], entry: _Entry[Request, Result]) -> None:
        waiting = self._waiting.get(group)
        if waiting is None:
            loop = asyncio.get_running_loop()
            waiting = self._waiting[group] = _Waiting(loop, group)
            loop.call_soon(self._begin, waiting, context=self._context)
        waiting.entries.append(entry)
        waiting.weight += entry.weight
        self._load.requests += not group[1]
        # A transaction that has enough with it begins.
        if waiting.delay is not None and len(waiting.entries) >= waiting.enough:
            waiting.begin()

    def _begin(self, waiting: _Waiting[Request, Result]) -> None:
        loop = waiting.loop
        if self._expiry is None:
            self._expiry = loop.call_later(_INTERVAL, self._expire, loop)
        task = loop.create_task(self._serve(waiting))
        # The loop keeps only weak references to tasks.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, waiting: _Waiting[Request, Result]) -> None:
        apart = waiting.group[1]
        server, number = asyncio.current_task(), waiting.served_by
        # Those who are served apart do not count, since they may be stuck.
        load = Load() if apart else self._load
        load.groups += 1
        try:
            while waiting.entries and waiting.served_by == number:
                enough = 1 if apart else min(_ENOUGH, load.requests // load.groups)
                if len(waiting.entries) < enough:
                    await waiting.more(enough, min(_LONGEST_DELAY, self._took))
                had = len(waiting.entries)
                batch = waiting.take(self._max_weight)
                taken = had - len(waiting.entries)
                try:
                    if batch:
                        self._running[server] = batch
                        await self._serve_in_time(waiting, batch, taken)
                finally:
                    if waiting.served_by == number:
                        load.requests -= taken
        finally:
            self._running.pop(server, None)
            if waiting.served_by == number:
                load.groups -= 1
                del self._waiting[waiting.group]
                load.requests -= len(waiting.entries)
                for entry in waiting.entries:  # Empty, unless the loop is stopping.
                    entry.result.cancel()

    async def _serve_in_time(
        self,
        waiting: _Waiting[Request, Result],
        batch: Sequence[_Entry[Request, Result]],
        taken: int,
    ) -> None:
        """Run a transaction; while one of one queue takes long, others overtake it."""
        key, apart = waiting.group
        timer, number, queue_id = None, waiting.served_by, batch[0].queue_id
        if self._overtaken_after is not None and not apart and not _has_several(batch):
            timer = waiting.loop.call_later(
                self._overtaken_after, self._overtake, waiting, queue_id, taken
            )
        began = monotonic()
        try:
            await self._serve_batch(key, batch)
        finally:
            took = monotonic() - began
            if waiting.served_by != number:
                self.set_apart(queue_id, took)
            elif not apart:
                self._took += (took - self._took) * _WEIGHT
            if timer is not None:
                timer.cancel()

    def _overtake(self, waiting: _Waiting[Request, Result], queue_id: int, taken: int) -> None:
        """Serve a group before its transaction of one queue has ended; serve that queue apart."""
        self.set_apart(queue_id)
        # No other waits for more requests because of those.
        self._load.requests -= taken
        self._load.groups -= 1
        waiting.served_by += 1
        self._begin(waiting)

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        now = monotonic()
        waiting = [each.entries for each in self._waiting.values()]
        for entries, error in (
            (chain.from_iterable(self._running.values()), errors.OutcomeUnknown),
            (chain.from_iterable(waiting), errors.ServiceUnavailable),
        ):
            for entry in entries:
                if entry.expires_at <= now:
                    _fail(entry, error())
        self._apart = {each: until for each, until in self._apart.items() if until > now}
        is_serving = bool(self._waiting or self._running)
        self._expiry = loop.call_later(_INTERVAL, self._expire, loop) if is_serving else None

    async def _serve_batch(self, key: Key, batch: Sequence[_Entry[Request, Result]]) -> None:
        self._observe(len(batch))
        deadline = max([entry.deadline for entry in batch])
        try:
            results = await self._transaction(key, batch, deadline)
        except asyncio.CancelledError:  # The loop is stopping.
            for entry in batch:
                entry.result.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - raised by the request that causes it.
            await self._fail_batch(key, batch, error)
            return
        if len(batch) >= _MANY:
            self._set_busy_apart(batch)
        for entry, result in zip(batch, results, strict=True):
            if not isinstance(result, errors.SqsError):
                if not (future := entry.result).done():
                    future.set_result(result)
                else:
                    self._discard(entry.queue_id, result)
            elif isinstance(result, errors.Locked) and _has_several(batch):
                self.set_apart(entry.queue_id)
                self._add((key, entry.queue_id), entry)
            else:
                _fail(entry, result)

    async def _fail_batch(
        self, key: Key, batch: Sequence[_Entry[Request, Result]], error: Exception
    ) -> None:
        """Fail the requests that an error holds for, and run the others.

        Those of several queues, one of which causes the error, each run with others of their queue.
        """
        # What may be done must not be run again.
        is_everybodys = isinstance(error, (errors.OutcomeUnknown, errors.TableLocked))
        if not is_everybodys and isinstance(error, _OF_ONE_QUEUE):
            if _has_several(batch):
                for entry in batch:
                    self._add((key, entry.queue_id), entry)
                return
            self.set_apart(batch[0].queue_id)
            is_everybodys = isinstance(error, errors.QueueMoved)
        elif isinstance(error, errors.ServiceUnavailable):
            is_everybodys = True
        if is_everybodys:
            for entry in batch:
                _fail(entry, error)
        else:
            await self._find_cause(key, batch, error)

    def _set_busy_apart(self, batch: Sequence[_Entry[Request, Result]]) -> None:
        for queue_id, requests in Counter(map(_QUEUE, batch)).items():
            if requests >= _MANY:
                self.set_apart(queue_id)

    async def _find_cause(
        self, key: Key, batch: Sequence[_Entry[Request, Result]], error: Exception
    ) -> None:
        """Fail the request that causes an error, and run the others."""
        if len(batch) == 1:
            _fail(batch[0], error)
            return
        # Nothing was done, because of one request: find it with smaller calls. One that waits for a
        # lock delays each call that it is in, so do not halve those.
        size = 1 if isinstance(error, errors.Locked) else (len(batch) + 1) // 2
        parts = [batch[start : start + size] for start in range(0, len(batch), size)]
        await asyncio.gather(*(self._serve_batch(key, part) for part in parts))

    def _transaction(
        self, key: Key, batch: Sequence[_Entry[Request, Result]], deadline: float
    ) -> Awaitable[Sequence[Result | errors.SqsError]]:
        run = self._run(key, [entry.request for entry in batch], deadline)
        if self._traces is None:
            return run
        return self._traces.traced(run, [entry.span for entry in batch])


def _fail(entry: _Entry[Request, Result], error: Exception) -> None:
    if not entry.result.done():
        entry.result.set_exception(error)


def _has_several(batch: Sequence[_Entry[Request, Result]]) -> bool:
    return batch[0].queue_id != batch[-1].queue_id


def _in_turn(
    entries: Sequence[_Entry[Request, Result]], most: int
) -> tuple[list[_Entry[Request, Result]], list[_Entry[Request, Result]]]:
    """Return one entry of each queue, then another one of each, and those that are too many.

    The weights of the first add up to `most` at most, unless it is one entry. Of the others, the
    queue whose turn is next comes first.
    """
    queues: dict[int, deque[_Entry[Request, Result]]] = {}
    for entry in entries:
        queues.setdefault(entry.queue_id, deque()).append(entry)
    turns = deque(queues.values())
    taken: list[_Entry[Request, Result]] = []
    weight = 0
    while turns and (not taken or weight + turns[0][0].weight <= most):
        entry = turns[0].popleft()
        taken.append(entry)
        weight += entry.weight
        if turns[0]:
            turns.rotate(-1)
        else:
            turns.popleft()
    return taken, list(chain.from_iterable(turns))
