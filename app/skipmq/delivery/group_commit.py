"""Group commit: requests that arrive while a transaction runs share the next one.

Of each key one transaction runs at a time. A request that finds none begins one with all that
arrive in the same turn of the event loop; nothing is ever delayed in the hope of company.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextvars import Context
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from skipmq import errors

if TYPE_CHECKING:
    from skipmq.tracing import Transactions

Key = TypeVar("Key", bound=Hashable)
Request = TypeVar("Request")
Result = TypeVar("Result")
# Runs the requests of a key in one transaction, until a deadline, and returns their results.
Run = Callable[[Key, Sequence[Request], float], Awaitable[Sequence[Result]]]


class _Entry(NamedTuple, Generic[Request, Result]):
    request: Request
    weight: int
    deadline: float
    result: asyncio.Future[Result]
    # The span of the request, where there are traces.
    span: Any


class GroupCommit(Generic[Key, Request, Result]):
    """Runs requests of one kind, many in one call of `run`; for one loop.

    No call is made for requests that weigh more than `most` together, unless one alone does.
    """

    def __init__(
        self,
        run: Run[Key, Request, Result],
        most: int,
        observe: Callable[[int], None] = lambda _: None,
        traces: "Transactions | None" = None,
    ) -> None:
        self._run = run
        self._most = most
        # Called with the number of requests in each call.
        self._observe = observe
        self._traces = traces
        # What is current while a request is traced is not the next one's too.
        self._context = None if traces is None else Context()
        # A key is there while it is served; its entries are those that wait.
        self._waiting: dict[Key, deque[_Entry[Request, Result]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def submit(
        self, key: Key, request: Request, weight: int, deadline: float
    ) -> asyncio.Future[Result]:
        """Return the future result of a request, which runs in the order of arrival with others.

        It raises what `run` raises for it: an error that another request causes is not seen here.
        One that is cancelled before it runs is not run.
        """
        loop = asyncio.get_running_loop()
        result: asyncio.Future[Result] = loop.create_future()
        waiting = self._waiting.get(key)
        if waiting is None:
            waiting = self._waiting[key] = deque()
            loop.call_soon(self._begin, loop, key, waiting, context=self._context)
        span = None if self._traces is None else self._traces.origin()
        waiting.append(_Entry(request, weight, deadline, result, span))
        return result

    def _begin(
        self,
        loop: asyncio.AbstractEventLoop,
        key: Key,
        waiting: deque[_Entry[Request, Result]],
    ) -> None:
        task = loop.create_task(self._serve(key, waiting))
        # The loop itself keeps no task alive.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, key: Key, waiting: deque[_Entry[Request, Result]]) -> None:
        try:
            while batch := self._take(waiting):
                await self._serve_batch(key, batch)
        finally:
            del self._waiting[key]
            for entry in waiting:  # None, unless the loop is ending.
                entry.result.cancel()

    def _take(self, waiting: deque[_Entry[Request, Result]]) -> list[_Entry[Request, Result]]:
        batch: list[_Entry[Request, Result]] = []
        weight = 0
        while waiting and (not batch or weight + waiting[0].weight <= self._most):
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
        except (errors.QueueMoved, errors.ServiceUnavailable) as error:
            # Nobody's fault: it is the same for all. And where the database went away it may have
            # been done: it must not be done twice.
            for entry in batch:
                _fail(entry, error)
        except asyncio.CancelledError:  # The loop is ending.
            for entry in batch:
                entry.result.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - it is raised again by whoever caused it.
            if len(batch) == 1:
                _fail(batch[0], error)
            else:
                # The call was refused, and nothing done, for the sake of one of its requests: each
                # finds out by itself whether it is the one.
                await asyncio.gather(*(self._serve_batch(key, [entry]) for entry in batch))
        else:
            for entry, result in zip(batch, results, strict=True):
                if not entry.result.done():
                    entry.result.set_result(result)

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
