"""Wake the janitor when a message move task is started or cancelled on any node."""

import asyncio
from collections.abc import AsyncIterator, Callable

from skipmq.database import DatabaseError, Pool
from skipmq.telemetry.logs import log

# The SQL functions that start and cancel tasks notify it.
CHANNEL = "skipmq_tasks"
_RETRY_SECONDS = 1.0


class TaskListener:
    """A task that listens on a connection of its own to each database; for one loop.

    Calls `on_change`. `databases` yields several where queues are spread over partitions.

    While it is disconnected, tasks wait for the janitor's next round.
    """

    def __init__(
        self,
        databases: Callable[[], AsyncIterator[Pool]],
        on_change: Callable[[], None],
    ) -> None:
        self._databases = databases
        self._on_change = on_change

    async def run(self) -> None:
        """Listen until cancelled; connect again when the connection breaks."""
        async with asyncio.TaskGroup() as group:
            async for database in self._databases():
                group.create_task(self._run(database))

    async def _run(self, database: Pool) -> None:
        while True:
            try:
                await self._listen(database)
            except DatabaseError as error:
                log.warning("janitor's listener disconnected", error=" ".join(str(error).split()))
                await asyncio.sleep(_RETRY_SECONDS)
            except Exception:
                log.exception("janitor's listener failed")
                await asyncio.sleep(_RETRY_SECONDS)

    async def _listen(self, database: Pool) -> None:
        session = await database.session("skipmq task listener")
        try:
            await session.execute(f"listen {CHANNEL}")
            self._on_change()  # Earlier notifications are not delivered.
            while session.is_current:
                async for _ in session.notifications(seconds=1):
                    self._on_change()
        finally:
            await session.close()
