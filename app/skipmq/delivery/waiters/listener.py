"""Listen for notifications of other processes: new messages, waiting receivers, changes."""

import asyncio
from collections.abc import AsyncIterator, Callable

from skipmq.database import DatabaseError, Pool
from skipmq.delivery.waiters.notifier import (
    CHANGED,
    CHANNEL,
    KEYS,
    SENT,
    WAITING,
    Notifier,
)
from skipmq.delivery.waiters.registry import Waiters
from skipmq.telemetry.logs import log

# The waiters to wake on a notification, which has no number of messages; a waiter that finds some
# wakes the next.
WOKEN = 2
_RETRY_SECONDS = 1.0


class Listener:
    """A task that listens on a connection of its own to each database, opened again when it breaks.

    `databases` yields several where queues are spread over partitions.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - each is a part of the node.
        self,
        databases: Callable[[], AsyncIterator[Pool]],
        process: str,
        waiters: Waiters,
        notifier: Notifier,
        forget: Callable[[str | None], None],
        keys_changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._databases = databases
        self._process = process
        self._waiters = waiters
        self._notifier = notifier
        # Removes a queue, or all, from the cache.
        self._forget = forget
        self._keys_changed = keys_changed

    async def run(self) -> None:
        """Listen until cancelled."""
        async with asyncio.TaskGroup() as group:
            async for database in self._databases():
                group.create_task(self._run(database))

    async def _run(self, database: Pool) -> None:
        while True:
            try:
                await self._listen(database)
            except DatabaseError as error:
                log.warning("listener disconnected", error=" ".join(str(error).split()))
                await asyncio.sleep(_RETRY_SECONDS)
            except Exception:
                log.exception("listener failed")
                await asyncio.sleep(_RETRY_SECONDS)

    async def _listen(self, database: Pool) -> None:
        session = await database.session()
        try:
            await session.execute(f"listen {CHANNEL}")
            # Earlier notifications are lost: reset the caches and poll each queue.
            self._forget(None)
            self._keys_changed()
            self._waiters.wake_all()
            while session.is_current:
                async for payload in session.notifications(seconds=1):
                    self.handle(payload)
        finally:
            await session.close()

    def handle(self, payload: str) -> None:
        """Handle one notification."""
        process, kind, *queues = payload.split(" ") if payload.count(" ") > 1 else ("", "")
        if process == self._process:
            return
        for queue in queues:
            if kind == SENT:
                self._waiters.wake(queue, WOKEN)
            elif kind == WAITING:
                self._notifier.add_interest(queue)
            elif kind == CHANGED:
                self._forget(queue)
            elif kind == KEYS:
                self._keys_changed()
