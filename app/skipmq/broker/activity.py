"""Counters of received messages and of empty receives of each queue.

The database counts sends and deletes in their own transactions. A receive would need a write of its
own, so that a node counts receives in memory and adds them to the database once a second and when
it stops; a node that is killed loses its last second's.
"""

from contextlib import suppress

from skipmq.broker.flushed import Flushed
from skipmq.database.partitions import Database
from skipmq.database.statement import BIGINTS, INTEGERS, Statement
from skipmq.protocol import errors

_ADD = Statement(
    "select skipmq.add_receives($1, $2, $3)", BIGINTS, INTEGERS, INTEGERS, repeatable=False
)
_INTERVAL = 1.0


class Activity(Flushed):
    """Counters of receives by queue id; for one loop."""

    def __init__(self, database: Database) -> None:
        super().__init__(_INTERVAL)
        self._database = database
        self._received: dict[int, int] = {}
        self._empty: dict[int, int] = {}

    def note(self, queue_id: int, messages: int) -> None:
        """Count a receive and its number of messages."""
        if messages:
            self._received[queue_id] = self._received.get(queue_id, 0) + messages
        else:
            self._empty[queue_id] = self._empty.get(queue_id, 0) + 1

    async def _write(self) -> None:
        """Add the counters to the database's totals, or discard them if it is unavailable."""
        received, self._received = self._received, {}
        empty, self._empty = self._empty, {}
        queues = [*(received | empty)]
        if not queues:
            return
        counts = [received.get(queue, 0) for queue in queues]
        empties = [empty.get(queue, 0) for queue in queues]
        with suppress(errors.SqsError):
            await self._database.rows_by_queue(_ADD, (), queues, counts, empties)
