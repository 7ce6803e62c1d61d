"""A read that concurrent callers share, and for which each waits no longer than it can."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


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
