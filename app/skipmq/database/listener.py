"""A connection outside the pool, for LISTEN and NOTIFY."""

import asyncio
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
        """Yield the payloads of notifications that arrive within `seconds`; raise psycopg.Error."""
        async for notification in self._connection.notifies(timeout=seconds):
            yield notification.payload

    async def close(self) -> None:
        """Close the session."""
        await self._connection.close()
