"""What a node notes in memory and writes to the database at an interval."""

import asyncio
from abc import ABC, abstractmethod
from contextlib import suppress

from skipmq.database.wakeup import every
from skipmq.protocol import errors
from skipmq.telemetry.logs import log

_CLOSE_SECONDS = 5.0


class Flushed(ABC):
    """Something noted in memory that is written at an interval; for one loop.

    Flushes come one after another: what one has taken is in the database before the next returns.
    """

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._lock = asyncio.Lock()
        self._flush: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Flush at each interval until cancelled, which interrupts no flush."""
        await every(self._interval, self._flush_shielded, "not written", what=type(self).__name__)

    async def _flush_shielded(self) -> None:
        self._flush = asyncio.create_task(self.flush())
        with suppress(errors.SqsError):
            await asyncio.shield(self._flush)

    async def flush(self) -> None:
        """Write what was noted until now; may raise errors.SqsError."""
        async with self._lock:
            await self._write()

    async def close(self) -> None:
        """Flush for the last time; what the database does not take within seconds is lost."""
        try:
            with suppress(errors.SqsError, TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await self.flush()
        except Exception:
            log.exception("not written at the stop", what=type(self).__name__)

    @abstractmethod
    async def _write(self) -> None:
        """Write what was noted until now; not called again before it returns."""
