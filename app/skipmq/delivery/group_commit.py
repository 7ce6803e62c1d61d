"""Group commit: requests that arrive while a transaction runs share the next one.

One transaction of each key runs at a time. A request that finds none starts one, together with all
that arrive in the same iteration of the event loop; no request is delayed to wait for others.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextvars import Context
from itertools import chain
from time import monotonic
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from skipmq import errors

if TYPE_CHECKING:
    from skipmq.telemetry.tracing import Transactions

Key = TypeVar("Key", bound=Hashable)
Request = TypeVar("Request")
Result = TypeVar("Result")
# A function that runs requests of a key in one transaction, and returns their results.
Run = Callable[[Key, Sequence[Request], float], Awaitable[Sequence[Result]]]
# Seconds between two checks for requests that time out.
_INTERVAL = 1.0


class _Entry(msgspec.Struct, Generic[Request, Result], frozen=True):
    request: Request
    weight: int
    deadline: float
    # The time at which the request times out, even if its transaction continues.
    expires_at: float
    result: asyncio.Future[Result]
    # The span of the request, with tracing.
    span: Any


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
        discard: Callable[[Key, Result], None] = lambda _key, _result: None,
    ) -> None:
        self._run = run
        # Called with the result of a request that was cancelled or has timed out.
        self._discard = discard
        self._seconds = seconds
        self._max_weight = max_weight
        # Called with the number of requests of each call.
        self._observe = observe
        self._traces = traces
        # An empty context, so that the first request's span is not current for all others.
        self._context = None if traces is None else Context()
        # The waiting entries of each key that is being served.
        self._waiting: dict[Key, deque[_Entry[Request, Result]]] = {}
        self._running: dict[Key, Sequence[_Entry[Request, Result]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        # The timer that fails requests that time out, while any key is being served.
        self._expiry: asyncio.TimerHandle | None = None

    def submit(
        self, key: Key, request: Request, weight: int, deadline: float
    ) -> asyncio.Future[Result]:
        """Return the future result of a request; requests of a key run in order of arrival.

        It raises the error of `run` for this request, and not one that another request of the call
        causes. A request that is cancelled while it waits is not run. Raises
        errors.ServiceUnavailable when it times out while it waits, errors.OutcomeUnknown when it
        times out while it runs.
        """
        loop = asyncio.get_running_loop()
        result: asyncio.Future[Result] = loop.create_future()
        waiting = self._waiting.get(key)
        if waiting is None:
            waiting = self._waiting[key] = deque()
            loop.call_soon(self._begin, loop, key, waiting, context=self._context)
        span = None if self._traces is None else self._traces.origin()
        expires_at = max(deadline, monotonic() + self._seconds)
        waiting.append(_Entry(request, weight, deadline, expires_at, result, span))
        return result

    def _begin(
        self,
        loop: asyncio.AbstractEventLoop,
        key: Key,
        waiting: deque[_Entry[Request, Result]],
    ) -> None:
        if self._expiry is None:
            self._expiry = loop.call_later(_INTERVAL, self._expire, loop)
        task = loop.create_task(self._serve(key, waiting))
        # The loop keeps only weak references to tasks.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, key: Key, waiting: deque[_Entry[Request, Result]]) -> None:
        try:
            while batch := self._take(waiting):
                self._running[key] = batch
                await self._serve_batch(key, batch)
        finally:
            del self._waiting[key]
            self._running.pop(key, None)
            for entry in waiting:  # Empty, unless the loop is stopping.
                entry.result.cancel()

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        now = monotonic()
        for entries, error in (
            (chain.from_iterable(self._running.values()), errors.OutcomeUnknown),
            (chain.from_iterable(self._waiting.values()), errors.ServiceUnavailable),
        ):
            for entry in entries:
                if entry.expires_at <= now:
                    _fail(entry, error())
        is_serving = bool(self._waiting)
        self._expiry = loop.call_later(_INTERVAL, self._expire, loop) if is_serving else None

    def _take(self, waiting: deque[_Entry[Request, Result]]) -> list[_Entry[Request, Result]]:
        batch: list[_Entry[Request, Result]] = []
        weight = 0
        while waiting and (not batch or weight + waiting[0].weight <= self._max_weight):
            entry = waiting.popleft()
            if not entry.result.done():
                weight += entry.weight
                batch.append(entry)
        return batch

    async def _serve_batch(self, key: Key, batch: Sequence[_Entry[Request, Result]]) -> None:
        self._observe(len(batch))
        deadline = max(entry.deadline for entry in batch)
        try:
            results = await self._transaction(key, batch, deadline)
        except errors.DatabaseDamaged as error:
            await self._find_cause(key, batch, error)
        except (errors.QueueMoved, errors.ServiceUnavailable, errors.TableLocked) as error:
            # These hold for all requests; and OutcomeUnknown must not be retried.
            for entry in batch:
                _fail(entry, error)
        except asyncio.CancelledError:  # The loop is stopping.
            for entry in batch:
                entry.result.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - raised by the request that causes it.
            await self._find_cause(key, batch, error)
        else:
            for entry, result in zip(batch, results, strict=True):
                if not entry.result.done():
                    entry.result.set_result(result)
                else:
                    self._discard(key, result)

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
    ) -> Awaitable[Sequence[Result]]:
        run = self._run(key, [entry.request for entry in batch], deadline)
        if self._traces is None:
            return run
        return self._traces.traced(run, [entry.span for entry in batch])


def _fail(entry: _Entry[Request, Result], error: Exception) -> None:
    if not entry.result.done():
        entry.result.set_exception(error)
