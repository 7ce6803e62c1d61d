"""What a task sleeps on that has something to do at intervals, or earlier when it is woken."""

import asyncio
from contextlib import suppress


class Wakeup:
    """A wake-up for one task; for one loop."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def wake(self) -> None:
        """End the task's sleep, or its next one if it does not sleep."""
        self._event.set()

    async def sleep(self, seconds: float) -> bool:
        """Sleep for `seconds` at most; return whether a wake-up ended it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
        woken = self._event.is_set()
        self._event.clear()
        return woken
