"""The database of the broker as a source of messages."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import psycopg

from skipmq.client import statements
from skipmq.client.connections import Connections, Link
from skipmq.client.message import Message, attributes_json
from skipmq.client.queue import Queue, Scheduled
from skipmq.client.source import Settled, Wakened

log = logging.getLogger(__package__)

# Nodes believe an announcement for 30 s.
_ANNOUNCE_SECONDS = 10.0
_RETRY_SECONDS = 5.0


class Database:
    """Claims and settles by SQL, each in a transaction of its own."""

    failure = psycopg.Error
    max_deletes = 1_000

    def __init__(self, dsn: str) -> None:
        self._connections = Connections(dsn)
        self._link = Link(self._connections)
        self.transaction = self._connections.transaction
        self.atransaction = self._connections.atransaction

    @property
    def is_open(self) -> bool:
        """Return whether it is connected."""
        return self._link.is_open

    async def open(self) -> None:
        """Connect; raise ClientError where that fails."""
        await self._link.open()

    async def close(self) -> None:
        """Close the connections that are not in use, and the others after their use."""
        await self._link.close()
        await self._connections.close()

    async def declare(self, schedule: Scheduled) -> None:
        """Create a schedule, or change the one of its name."""
        name, queue, expression, body, zone, group, attributes = schedule
        known = attributes_json(attributes)
        place = (queue.account, queue.region)
        parameters = (name, queue.name, expression, body, zone, group, known, *place)
        with queue.explaining():
            await self._link.run(lambda: (statements.SCHEDULE, parameters))

    async def listen(self, runners: Sequence[Wakened]) -> None:
        """Wake runners for what nodes send to their queues, until it is cancelled.

        Without it they poll: a message that was sent by SQL is found only so.
        """
        process = f"work-{uuid4().hex}"
        while True:
            try:
                async with await self._connections.connect() as connection:
                    with self._connections.deadline(connection):
                        found = await connection.execute(statements.PLACE, (None, None))
                        ((account, region),) = await found.fetchall()
                        await connection.execute(statements.LISTEN)
                    named = {each.queue.arn_in(account, region): each for each in runners}
                    announcements = [f"{process} waiting {arn}" for arn in named]
                    while True:
                        with self._connections.deadline(connection):
                            await connection.execute(statements.NOTIFY, (announcements,))
                        async for notice in connection.notifies(timeout=_ANNOUNCE_SECONDS):
                            for arn in _queues_sent_to(notice.payload):
                                if arn in named:
                                    named[arn].wake()
            except psycopg.Error as error:
                log.debug("no notifications from nodes for now: %s", error)
                await asyncio.sleep(_RETRY_SECONDS)

    async def claim(self, queue: Queue[Any], limit: int, seconds: int) -> list[Message]:
        """Receive messages, in the order of their groups."""
        parameters = (queue.name, limit, seconds, queue.account, queue.region)
        with queue.explaining():
            rows = await self._link.run(lambda: (statements.CLAIM, parameters))
        return [Message.from_row(row) for row in rows]

    async def delete(self, queue: Queue[Any], messages: Settled) -> list[bool]:
        """Delete messages; return for each whether it was."""
        return await self._settle(statements.DELETE, queue, messages)

    async def hide(
        self, queue: Queue[Any], messages: Settled, seconds: int, reason: str | None = None
    ) -> int:
        """Hide messages from now on, with a reason as their FailureReason."""
        return sum(await self._settle(statements.HIDE, queue, messages, seconds, reason))

    async def give_back(self, queue: Queue[Any], messages: Sequence[Message]) -> int:
        """Return messages as if they had not been received."""
        return sum(await self._settle(statements.RETURN, queue, messages))

    async def dead_letter(self, queue: Queue[Any], messages: Sequence[Message], reason: str) -> int:
        """Move messages to the dead-letter queue."""
        return sum(await self._settle(statements.DEAD_LETTER, queue, messages, reason))

    def deletion(self, queue: Queue[Any], messages: Sequence[Message]) -> tuple[str, list[Any]]:
        """Return the statement that deletes messages, with its parameters."""
        return _settling(statements.DELETE, queue, messages)

    async def _settle(
        self, statement: str, queue: Queue[Any], messages: Settled, *extra: Any
    ) -> list[bool]:
        def made() -> tuple[str, list[Any]] | None:
            found = messages() if callable(messages) else messages
            return _settling(statement, queue, found, *extra) if found else None

        with queue.explaining():
            rows = await self._link.run(made)
        return [bool(done) for (done,) in rows]


def _settling(
    statement: str, queue: Queue[Any], messages: Sequence[Message], *extra: Any
) -> tuple[str, list[Any]]:
    """Return a statement that settles messages, with its parameters: its own are `extra`."""
    before = (queue.name, *extra, queue.account, queue.region)
    return statements.settling(statement, before, [(m.number, m.receipt, m.id) for m in messages])


def _queues_sent_to(payload: str) -> list[str]:
    """Return the queues of a notification that something was sent: `PROCESS sent ARN ARN…`."""
    _, kind, *arns = [*payload.split(" "), ""]
    return arns if kind == "sent" else []
