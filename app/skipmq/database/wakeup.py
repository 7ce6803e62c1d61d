"""A sleep that can be ended early, for tasks that run at intervals or when woken."""

import asyncio
from contextlib import suppress


class Wakeup:
    """A wake-up for one task; for one loop."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def wake(self) -> None:
        """End the task's sleep, or the next one if it is not sleeping."""
        self._event.set()

    async def sleep(self, seconds: float) -> bool:
        """Sleep for at most `seconds`; return whether a wake-up ended the sleep."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
        woken = self._event.is_set()
        self._event.clear()
        return woken
