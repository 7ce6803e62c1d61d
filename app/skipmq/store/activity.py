"""How many messages are received from each queue, and how often none is.

What is sent and deleted the database counts itself, in the transaction that does it. A receive
would pay for a row of its own: a node counts receives in memory, adds them once a second, and loses
those of its last second when it is killed.
"""

import asyncio
from contextlib import suppress

from skipmq import errors
from skipmq.database import Database, Statement
from skipmq.database.statement import INTEGERS

_ADD = Statement(
    "select skipmq.add_receives($1, $2, $3)", INTEGERS, INTEGERS, INTEGERS, repeatable=False
)
_INTERVAL = 1.0


class Activity:
    """Counts receives by generation of queues; for one loop."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._received: dict[int, int] = {}
        self._empty: dict[int, int] = {}

    def note(self, queue_id: int, messages: int) -> None:
        """Note that a receive gave so many messages."""
        if messages:
            self._received[queue_id] = self._received.get(queue_id, 0) + messages
        else:
            self._empty[queue_id] = self._empty.get(queue_id, 0) + 1

    async def run(self) -> None:
        """Add to the totals until it is cancelled."""
        while True:
            await asyncio.sleep(_INTERVAL)
            await self.flush()

    async def flush(self) -> None:
        """Add to the totals what has been noted; forget it where the database is unavailable."""
        received, self._received = self._received, {}
        empty, self._empty = self._empty, {}
        queues = [*(received | empty)]
        if not queues:
            return
        counts = [received.get(queue, 0) for queue in queues]
        parameters = (queues, counts, [empty.get(queue, 0) for queue in queues])
        with suppress(errors.SqsError):
            await self._database.rows(_ADD, parameters)
