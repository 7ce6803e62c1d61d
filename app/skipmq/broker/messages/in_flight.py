"""The limit of messages in flight, enforced without counting at each receive."""

import asyncio
from time import monotonic

from skipmq.broker.messages.statements import IN_FLIGHT
from skipmq.broker.queues import Queue
from skipmq.database.partitions import Database
from skipmq.protocol import limits

# Between two counts a worker receives 1/SHARE of a queue's remaining room, but at least STRIDE
# messages; a full queue is counted again after PAUSE seconds.
SHARE = 8
STRIDE = 1_000
PAUSE = 1.0
QUEUES = 10_000


class InFlight:
    """The limit of messages in flight of all queues; for one loop.

    It is approximate, as that of SQS is: each worker may exceed it by less than STRIDE, and each
    beyond SHARE workers by its share.
    """

    def __init__(self, database: Database, limit: int = limits.IN_FLIGHT) -> None:
        self._database = database
        self._limit = limit
        self._room: dict[int, int] = {}
        self._full_until: dict[int, float] = {}
        # Requests that find no room share one count.
        self._counting: dict[int, asyncio.Lock] = {}

    async def allows(self, queue: Queue, deadline: float) -> bool:
        """Return whether another receive is allowed."""
        allowed = self._cached(queue.id)
        if allowed is None:
            async with self._counting.setdefault(queue.id, asyncio.Lock()):
                allowed = self._cached(queue.id)
                if allowed is None:
                    allowed = await self._count(queue.id, deadline)
        return allowed

    def _cached(self, queue_id: int) -> bool | None:
        if self._room.get(queue_id, 0) > 0:
            return True
        return False if self._full_until.get(queue_id, 0.0) > monotonic() else None

    async def _count(self, queue_id: int, deadline: float) -> bool:
        began = monotonic()
        # The count is exact from half the limit on.
        ((count,),) = await self._database.rows(
            IN_FLIGHT, (queue_id, self._limit), deadline=deadline, tenant=queue_id
        )
        if len(self._room) >= QUEUES:
            self.forget()
        if count < self._limit:
            room = self._limit - count
            self._room[queue_id] = max(room // SHARE, min(room, STRIDE))
            return True
        self._full_until[queue_id] = began + PAUSE
        return False

    def forget(self) -> None:
        """Count the messages of all queues again."""
        self._room.clear()
        self._full_until.clear()
        self._counting.clear()

    def received(self, queue: Queue, count: int) -> None:
        """Subtract received messages from the queue's room."""
        self._room[queue.id] = self._room.get(queue.id, 0) - count
