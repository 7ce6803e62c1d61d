"""The queue for a database connection: in order, and fair between the queues of messages.

A pool alone gives a free connection to whoever happens to ask first, so that one queue which is
hammered, or whose transactions are stuck, keeps all others out.
"""

import threading
from collections import deque
from collections.abc import Hashable
from typing import TypeAlias

from skipmq import errors

Party: TypeAlias = Hashable
_NOBODY = object()  # None is a party.


class _Ticket:
    """Somebody who waits; `granted` changes only under the gate's lock."""

    __slots__ = ("granted", "turn")

    def __init__(self) -> None:
        self.granted = False
        # Held by who waits until a permit is theirs.
        self.turn = threading.Lock()
        self.turn.acquire()


class Gate:
    """Gives out permits, to the parties that wait in turn, and within one in order of arrival.

    One party never has all permits, unless there is only one. A permit that comes back goes to
    somebody who waits: nobody can slip in before them. Safe for threads.
    """

    def __init__(self, permits: int, patience: float) -> None:
        self._lock = threading.Lock()
        self._free = permits
        self._share = max(1, permits - 1)
        self._patience = patience
        self._held: dict[Party, int] = {}
        # The party whose turn is next comes first.
        self._waiting: dict[Party, deque[_Ticket]] = {}

    def enter(self, party: Party) -> None:
        """Take a permit; whoever has one must leave again.

        Raises errors.ServiceUnavailable when none comes free in time.
        """
        with self._lock:
            # Where a permit is free, all who wait are of parties that have their share.
            if self._free and self._held.get(party, 0) < self._share:
                self._take(party)
                return
            ticket = _Ticket()
            self._waiting.setdefault(party, deque()).append(ticket)
        if ticket.turn.acquire(timeout=self._patience):
            return
        with self._lock:
            if ticket.granted:  # Just as the time was over.
                return
            tickets = self._waiting[party]
            tickets.remove(ticket)
            if not tickets:
                del self._waiting[party]
        raise errors.ServiceUnavailable("All database connections are busy; try again.")

    def leave(self, party: Party) -> None:
        """Give a permit back."""
        with self._lock:
            self._free += 1
            self._held[party] -= 1
            if not self._held[party]:
                del self._held[party]
            while self._free and self._grant():
                pass

    def waiting(self) -> int:
        """Return how many wait."""
        with self._lock:
            return sum(map(len, self._waiting.values()))

    def _grant(self) -> bool:
        below = (p for p in self._waiting if self._held.get(p, 0) < self._share)
        party = next(below, _NOBODY)
        if party is _NOBODY:
            return False
        self._take(party)
        tickets = self._waiting.pop(party)
        ticket = tickets.popleft()
        if tickets:  # To the end of the round.
            self._waiting[party] = tickets
        ticket.granted = True
        ticket.turn.release()
        return True

    def _take(self, party: Party) -> None:
        self._free -= 1
        self._held[party] = self._held.get(party, 0) + 1
