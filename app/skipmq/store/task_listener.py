"""Wakes the janitor when a task that moves messages was started or cancelled, on whatever node."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from skipmq.database import DatabaseError
from skipmq.database.listener import Session

log = structlog.get_logger()

# The functions of the database that start and cancel tasks notify it.
CHANNEL = "skipmq_tasks"
_RETRY_SECONDS = 1.0


class TaskListener:
    """A task with a connection of its own; without it tasks wait for the janitor's next round."""

    def __init__(
        self, connect: Callable[[], Awaitable[Session]], changed: Callable[[], None]
    ) -> None:
        self._connect = connect
        self._changed = changed

    async def run(self) -> None:
        """Listen until it is cancelled; open the connection again when it breaks."""
        while True:
            try:
                await self._listen()
            except DatabaseError as error:
                log.warning("janitor does not listen", error=" ".join(str(error).split()))
                await asyncio.sleep(_RETRY_SECONDS)
            except Exception:
                log.exception("janitor's listener failed")
                await asyncio.sleep(_RETRY_SECONDS)

    async def _listen(self) -> None:
        session = await self._connect()
        try:
            await session.execute(f"listen {CHANNEL}")
            self._changed()  # Notifications sent before are not delivered.
            while session.is_current:
                async for _ in session.notifications(seconds=1):
                    self._changed()
        finally:
            await session.close()
