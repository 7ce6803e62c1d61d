"""The queue for a database connection: in order, and fair between tenants.

A pool alone gives a free connection to whoever happens to ask first, so that one queue of messages
which is hammered, or whose transactions are stuck, keeps all others out.
"""

import asyncio
from collections import deque
from collections.abc import Hashable
from typing import TypeAlias

from skipmq import errors

# The fairness key: a queue's number; None for what concerns no queue, and upkeep.
Tenant: TypeAlias = Hashable
_NOBODY = object()  # None is a tenant.


class FairSemaphore:
    """Gives out permits, to the tenants that wait in turn, and within one in order of arrival.

    One tenant never has all permits, unless there is only one. A permit that comes back goes to
    somebody who waits: nobody can slip in before them. For one loop.
    """

    def __init__(self, permits: int, seconds: float) -> None:
        self._free = permits
        self._share = max(1, permits - 1)
        self._seconds = seconds
        self._held: dict[Tenant, int] = {}
        # The tenant whose turn is next comes first.
        self._waiting: dict[Tenant, deque[asyncio.Future[None]]] = {}

    async def acquire(self, tenant: Tenant) -> None:
        """Take a permit; whoever has one must release it.

        Raises errors.ServiceUnavailable when none becomes free in time.
        """
        # Where a permit is free, all who wait are of tenants that have their share.
        if self._free and self._held.get(tenant, 0) < self._share:
            self._take(tenant)
            return
        granted = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(granted)
        try:
            async with asyncio.timeout(self._seconds):
                await granted
        except TimeoutError:
            if not self._withdraw(tenant, granted):  # Granted just as the time was over.
                return
            raise errors.ServiceUnavailable(
                "All database connections are busy; try again."
            ) from None
        except asyncio.CancelledError:
            if not self._withdraw(tenant, granted):
                self.release(tenant)
            raise

    def release(self, tenant: Tenant) -> None:
        """Give a permit back."""
        self._free += 1
        self._held[tenant] -= 1
        if not self._held[tenant]:
            del self._held[tenant]
        while self._free and self._waiting and self._grant():
            pass

    def waiting(self) -> int:
        """Return how many wait."""
        return sum(map(len, self._waiting.values()))

    def held(self) -> int:
        """Return how many permits are given out."""
        return sum(self._held.values())

    def _withdraw(self, tenant: Tenant, granted: asyncio.Future[None]) -> bool:
        """Wait no longer; tell whether no permit had been granted."""
        waiting = self._waiting.get(tenant)
        if waiting is None or granted not in waiting:
            return False
        waiting.remove(granted)
        if not waiting:
            del self._waiting[tenant]
        return True

    def _grant(self) -> bool:
        below = (t for t in self._waiting if self._held.get(t, 0) < self._share)
        tenant = next(below, _NOBODY)
        if tenant is _NOBODY:
            return False
        self._take(tenant)
        waiting = self._waiting.pop(tenant)
        granted = waiting.popleft()
        if waiting:  # To the end of the round.
            self._waiting[tenant] = waiting
        if not granted.done():
            granted.set_result(None)
        return True

    def _take(self, tenant: Tenant) -> None:
        self._free -= 1
        self._held[tenant] = self._held.get(tenant, 0) + 1
