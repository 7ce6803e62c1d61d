"""Wake the janitor when a message move task is started or cancelled on any node."""

import asyncio
from collections.abc import Awaitable, Callable

from skipmq.database import DatabaseError
from skipmq.database.listener import Session
from skipmq.telemetry.logs import log

# The SQL functions that start and cancel tasks notify it.
CHANNEL = "skipmq_tasks"
_RETRY_SECONDS = 1.0


class TaskListener:
    """A task that listens on its own connection and calls `on_change`; for one loop.

    While it is disconnected, tasks wait for the janitor's next round.
    """

    def __init__(
        self, connect: Callable[[], Awaitable[Session]], on_change: Callable[[], None]
    ) -> None:
        self._connect = connect
        self._on_change = on_change

    async def run(self) -> None:
        """Listen until cancelled; connect again when the connection breaks."""
        while True:
            try:
                await self._listen()
            except DatabaseError as error:
                log.warning("janitor's listener disconnected", error=" ".join(str(error).split()))
                await asyncio.sleep(_RETRY_SECONDS)
            except Exception:
                log.exception("janitor's listener failed")
                await asyncio.sleep(_RETRY_SECONDS)

    async def _listen(self) -> None:
        session = await self._connect()
        try:
            await session.execute(f"listen {CHANNEL}")
            self._on_change()  # Earlier notifications are not delivered.
            while session.is_current:
                async for _ in session.notifications(seconds=1):
                    self._on_change()
        finally:
            await session.close()
