"""Tasks that run at intervals or when woken."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from skipmq.protocol import errors
from skipmq.telemetry.logs import log


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


async def every(
    seconds: float,
    run: Callable[[], Awaitable[object]],
    failure: str,
    wakeup: Wakeup | None = None,
    **fields: str,
) -> None:
    """Call `run` after each sleep of `seconds`, or when woken, until cancelled.

    An unavailable database is no failure; other errors are logged, as `failure` with `fields`.
    """
    wakeup = wakeup or Wakeup()
    while True:
        await wakeup.sleep(seconds)
        try:
            await run()
        except errors.ServiceUnavailable:
            pass
        except Exception:
            log.exception(failure, **fields)
