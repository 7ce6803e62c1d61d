"""Fair semaphore for database connections: tenants in turn, in order of arrival within one.

With a plain pool one busy queue, or one whose transactions are stuck, can take every connection.
"""

import asyncio
from collections import deque
from collections.abc import Hashable
from typing import TypeAlias

from skipmq.protocol import errors

# The fairness key: a queue's id; None for upkeep and for statements on no queue.
Tenant: TypeAlias = Hashable
_NO_TENANT = object()  # None is a tenant.


class FairSemaphore:
    """A semaphore that grants permits to waiting tenants in turn, and to each in order of arrival.

    One tenant never holds all permits, unless there is only one. A released permit goes to a
    waiting tenant before any later caller. For one loop.
    """

    def __init__(self, permits: int, seconds: float) -> None:
        self._free = permits
        self._share = max(1, permits - 1)
        self._seconds = seconds
        self._held: dict[Tenant, int] = {}
        # The tenant whose turn is next comes first.
        self._waiting: dict[Tenant, deque[asyncio.Future[None]]] = {}

    async def acquire(self, tenant: Tenant) -> None:
        """Take a permit, which the caller must release.

        Raises errors.ServiceUnavailable when none becomes free in time.
        """
        if self.take(tenant):
            return
        granted = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(granted)
        try:
            async with asyncio.timeout(self._seconds):
                await granted
        except TimeoutError:
            if not self._withdraw(tenant, granted):  # Granted just as the wait timed out.
                return
            raise errors.ServiceUnavailable(
                "All database connections are busy; try again."
            ) from None
        except asyncio.CancelledError:
            if not self._withdraw(tenant, granted):
                self.release(tenant)
            raise

    def take(self, tenant: Tenant) -> bool:
        """Take a permit, which the caller must release, if one is free; return whether it is."""
        held = self._held.get(tenant, 0)
        # While a permit is free, only tenants that hold their share wait.
        if not self._free or held >= self._share:
            return False
        self._free -= 1
        self._held[tenant] = held + 1
        return True

    def release(self, tenant: Tenant) -> None:
        """Return a permit, and grant it to a waiting tenant."""
        self._free += 1
        held = self._held.pop(tenant) - 1
        if held:
            self._held[tenant] = held
        while self._free and self._waiting and self._grant():
            pass

    def waiting(self) -> int:
        """Return the number of waiting tasks."""
        return sum(map(len, self._waiting.values()))

    def held(self) -> int:
        """Return the number of permits held."""
        return sum(self._held.values())

    def _withdraw(self, tenant: Tenant, granted: asyncio.Future[None]) -> bool:
        """Stop waiting; return whether no permit was granted before."""
        waiting = self._waiting.get(tenant)
        if waiting is None or granted not in waiting:
            return False
        waiting.remove(granted)
        if not waiting:
            del self._waiting[tenant]
        return True

    def _grant(self) -> bool:
        below = (t for t in self._waiting if self._held.get(t, 0) < self._share)
        tenant = next(below, _NO_TENANT)
        if tenant is _NO_TENANT:
            return False
        self.take(tenant)
        waiting = self._waiting.pop(tenant)
        granted = waiting.popleft()
        if waiting:  # Move the tenant to the end of the round.
            self._waiting[tenant] = waiting
        if not granted.done():
            granted.set_result(None)
        return True
