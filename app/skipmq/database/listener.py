"""A connection of its own for whoever listens or notifies."""

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
        self._losses = availability.losses

    @classmethod
    async def open(
        cls, parameters: dict[str, Any], seconds: float, availability: Availability
    ) -> Self:
        """Return a new session, whose statements may take so many seconds.

        Raises psycopg.OperationalError.
        """
        connection = await psycopg.AsyncConnection.connect(autocommit=True, **parameters)
        return cls(connection, seconds, availability)

    @property
    def is_current(self) -> bool:
        """Tell whether it is open and the database was never unavailable since.

        Without that a frozen server, or one that was replaced, is listened to for ever.
        """
        return not self._connection.closed and self._losses == self._availability.losses

    async def execute(self, query: str, parameters: Sequence[Any] | None = None) -> None:
        """Run a query without waiting longer than any statement may take.

        Raises psycopg.Error.
        """
        try:
            async with asyncio.timeout(self._seconds):
                await self._connection.execute(query, parameters)
        except TimeoutError:
            await self.close()
            raise psycopg.OperationalError("the server does not answer") from None

    async def notifications(self, seconds: float) -> AsyncIterator[str]:
        """Give the payloads of the notifications that arrive within so many seconds.

        Raises psycopg.Error.
        """
        async for notification in self._connection.notifies(timeout=seconds):
            yield notification.payload

    async def close(self) -> None:
        """Close it."""
        await self._connection.close()
