"""A connection outside the pool, for LISTEN and NOTIFY."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Any, Self

import psycopg

from skipmq.database.availability import Availability


class Session:
    """A connection outside the pool, in autocommit mode; for one task."""

    def __init__(
        self, connection: psycopg.AsyncConnection[Any], seconds: float, availability: Availability
    ) -> None:
        self._connection = connection
        self._seconds = seconds
        self._availability = availability
        self._interruptions = availability.interruptions
        self._payloads: deque[str] = deque()
        # Of notifications that arrive with the answer to a query.
        connection.add_notify_handler(lambda each: self._payloads.append(each.payload))

    @classmethod
    async def open(
        cls, parameters: dict[str, Any], seconds: float, availability: Availability
    ) -> Self:
        """Open a session whose statements may take `seconds`; raise psycopg.OperationalError."""
        connection = await psycopg.AsyncConnection.connect(autocommit=True, **parameters)
        return cls(connection, seconds, availability)

    @property
    def is_current(self) -> bool:
        """Return whether the session is open and the database was not interrupted since.

        After an interruption the session may listen for ever to a server that hangs or was
        replaced.
        """
        return (
            not self._connection.closed and self._interruptions == self._availability.interruptions
        )

    async def execute(self, query: str, parameters: Sequence[Any] | None = None) -> None:
        """Run a query; close the session when it times out. Raises psycopg.Error."""
        try:
            async with asyncio.timeout(self._seconds):
                await self._connection.execute(query, parameters)
        except TimeoutError:
            await self.close()
            raise psycopg.OperationalError("the server does not answer") from None

    async def notifications(self, seconds: float) -> AsyncIterator[str]:
        """Yield the payloads of notifications that arrive within `seconds`; raise psycopg.Error.

        Not by psycopg's `notifies`, which wakes up ten times a second.
        """
        loop, pgconn = asyncio.get_running_loop(), self._connection.pgconn
        until = loop.time() + seconds
        while True:
            while self._payloads:
                yield self._payloads.popleft()
            readable = asyncio.Event()
            descriptor = self._connection.fileno()
            loop.add_reader(descriptor, readable.set)
            try:
                async with asyncio.timeout_at(until):
                    await readable.wait()
            except TimeoutError:
                return
            finally:
                loop.remove_reader(descriptor)
            pgconn.consume_input()
            while (notification := pgconn.notifies()) is not None:
                self._payloads.append(notification.extra.decode())

    async def close(self) -> None:
        """Close the session."""
        await self._connection.close()
