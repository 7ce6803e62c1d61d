"""Tasks that run at intervals, when woken or notified, or once for concurrent callers."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, Generic, TypeVar

import psycopg

from skipmq.database.connection import Session
from skipmq.database.pool import Pool
from skipmq.protocol import errors
from skipmq.telemetry.logs import log

_RETRY_SECONDS = 1.0
# Of the last flush.
_CLOSE_SECONDS = 5.0

T = TypeVar("T")


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


class SharedRead(Generic[T]):
    """A read that runs once at a time; for one loop."""

    def __init__(self, read: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._read = read
        self._reading: asyncio.Task[T] | None = None

    async def within(self, seconds: float) -> asyncio.Task[T] | None:
        """Start to read unless that runs; return the task if it ends within `seconds`."""
        reading = self._reading
        if reading is None or reading.done():
            self._reading = reading = asyncio.get_running_loop().create_task(self._read())
            # Retrieve the exception, which asyncio logs otherwise if all callers have timed out.
            reading.add_done_callback(lambda task: task.cancelled() or task.exception())
        done, _ = await asyncio.wait({reading}, timeout=seconds)
        return reading if done else None


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


async def listen(
    databases: AsyncIterator[Pool],
    channel: str,
    notify: Callable[[str | None], None],
    application_name: str = "",
) -> None:
    """Listen on a connection of its own to each database until cancelled.

    Calls `notify` with the payload of each notification, and with None when a connection begins to
    listen, also after it broke: earlier notifications are lost.
    """

    async def run(database: Pool) -> None:
        while True:
            try:
                await _listen(await database.session(application_name), channel, notify)
            except psycopg.Error as error:
                text = " ".join(str(error).split())
                log.warning("listener disconnected", channel=channel, error=text)
                await asyncio.sleep(_RETRY_SECONDS)
            except Exception:
                log.exception("listener failed", channel=channel)
                await asyncio.sleep(_RETRY_SECONDS)

    async with asyncio.TaskGroup() as group:
        async for database in databases:
            group.create_task(run(database))


async def _listen(session: Session, channel: str, notify: Callable[[str | None], None]) -> None:
    try:
        await session.execute(f"listen {channel}")
        notify(None)
        while session.is_current:
            async for payload in session.notifications(seconds=1):
                notify(payload)
    finally:
        await session.close()


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
