"""Group commit: requests that come while a transaction runs share the next one.

Of the requests with one key, the first leads: it runs its own and all that are pending in one call,
hands their results out, and makes the next of those that came meanwhile the leader. A request that
finds nobody there runs at once: nothing is ever delayed in the hope of company.
"""

import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

from skipmq import errors

Key = TypeVar("Key", bound=Hashable)
Request = TypeVar("Request")
Result = TypeVar("Result")


class _Ticket(Generic[Request, Result]):
    """A request that is pending, and what became of it."""

    __slots__ = ("alone", "error", "request", "result", "turn", "weight")

    def __init__(self, request: Request, weight: int) -> None:
        self.request = request
        self.weight = weight
        self.result: Result | None = None
        self.error: Exception | None = None
        self.alone = False
        # Held by the requester until it is served, or is to lead.
        self.turn = threading.Lock()
        self.turn.acquire()

    @property
    def served(self) -> bool:
        """Tell whether a call has been made for it."""
        return self.alone or self.result is not None or self.error is not None


class GroupCommit(Generic[Key, Request, Result]):
    """Runs requests of one kind, many in one call of `run`; safe for threads.

    `run` takes a key and requests, and returns the results in their order. No call is made for
    requests that weigh more than `most` together, unless one alone does.
    """

    def __init__(
        self, run: Callable[[Key, Sequence[Request]], Sequence[Result]], most: int
    ) -> None:
        self._run = run
        self._most = most
        self._lock = threading.Lock()
        # A key is there while somebody leads; its tickets are those who wait.
        self._pending: dict[Key, deque[_Ticket[Request, Result]]] = {}

    def submit(self, key: Key, request: Request, weight: int = 1) -> Result:
        """Run a request, in the order of arrival with others of its key; return its result.

        Raises what `run` raises for it: an error that another request causes is not seen here.
        """
        ticket: _Ticket[Request, Result] = _Ticket(request, weight)
        with self._lock:
            pending = self._pending.get(key)
            if pending is None:
                self._pending[key] = deque()
            else:
                pending.append(ticket)
        if pending is None:
            self._lead(key, ticket)
        else:
            ticket.turn.acquire()
            if not ticket.served:
                self._lead(key, ticket)
        if ticket.alone and ticket.error is None:
            # The call was refused, and nothing done, for the sake of one of its requests: let each
            # find out by itself whether it was they, in a thread of its own.
            return self._run(key, [request])[0]
        if ticket.error is not None:
            raise ticket.error
        assert ticket.result is not None
        return ticket.result

    def _lead(self, key: Key, own: _Ticket[Request, Result]) -> None:
        batch = [own]
        weight = own.weight
        with self._lock:
            pending = self._pending[key]
            while pending and weight + pending[0].weight <= self._most:
                ticket = pending.popleft()
                weight += ticket.weight
                batch.append(ticket)
        try:
            self._serve(key, batch)
        finally:
            with self._lock:
                successor = self._pending[key].popleft() if self._pending[key] else None
                if successor is None:
                    del self._pending[key]
            if successor is not None:
                successor.turn.release()
            for ticket in batch:
                if not ticket.served:  # The leader's thread is ending.
                    ticket.error = errors.ServiceUnavailable()
                if ticket is not own:
                    ticket.turn.release()

    def _serve(self, key: Key, batch: Sequence[_Ticket[Request, Result]]) -> None:
        try:
            results = self._run(key, [ticket.request for ticket in batch])
        except (errors.QueueMoved, errors.ServiceUnavailable) as error:
            # Nobody's fault: it is the same for all. And where the database went away it may have
            # been done: it must not be done twice.
            for ticket in batch:
                ticket.error = error
        except Exception as error:  # noqa: BLE001 - it is raised again by whoever caused it.
            if len(batch) == 1:
                batch[0].error = error
            for ticket in batch:
                ticket.alone = True
        else:
            for ticket, result in zip(batch, results, strict=True):
                ticket.result = result
