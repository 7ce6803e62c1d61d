"""What is received from each queue, and by whom: counted in memory, and written at intervals.

The database counts sends and deletes in their own transactions; a receive would need a write of its
own. A request only adds to numbers. A node that is killed loses its last seconds.
"""

from contextlib import suppress
from time import monotonic
from typing import Annotated

import msgspec

from skipmq.database.partitions import Database
from skipmq.database.statement import (
    BIGINT,
    BIGINTS,
    INTEGERS,
    TEXT,
    TEXTS,
    Search,
    Statement,
    columns,
    whole,
)
from skipmq.database.wakeup import Flushed
from skipmq.protocol import errors
from skipmq.protocol.call import Request

# Seconds between two writes of the numbers of queues, and of their consumers.
_ACTIVITY_INTERVAL, INTERVAL = 1.0, 5.0
_ADD = Statement(
    "select skipmq.add_receives($1, $2, $3)", BIGINTS, INTEGERS, INTEGERS, repeatable=False
)
# Limits in a process; further consumers are counted as one without a name.
QUEUE_CONSUMERS, CONSUMERS = 200, 10_000
# Characters that are kept of a user agent.
USER_AGENT = 250
# Seconds without a request after which a consumer is forgotten.
IDLE = 600.0
OTHERS = "others"
_NOTE = Statement(
    "select skipmq.note_consumers($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
    TEXT, BIGINTS, TEXTS, TEXTS, BIGINTS, BIGINTS, BIGINTS, BIGINTS, BIGINTS, INTEGERS, TEXTS,
)  # fmt: skip


class Activity(Flushed):
    """Counters of receives by queue id; for one loop."""

    def __init__(self, database: Database) -> None:
        super().__init__(_ACTIVITY_INTERVAL)
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


class Consumer:
    """The counters of a caller at an address, for one queue; times are of time.monotonic."""

    __slots__ = (
        "deleted",
        "is_changed",
        "last",
        "received",
        "receives",
        "since",
        "used",
        "user_agent",
        "waiting",
    )

    def __init__(self, user_agent: str | None) -> None:
        self.user_agent = user_agent
        self.since = self.used = monotonic()
        self.last: float | None = None
        self.receives = self.received = self.deleted = self.waiting = 0
        self.is_changed = True

    def begin(self) -> None:
        """Count a receive that begins, and may wait."""
        self.waiting += 1
        self.is_changed = True

    def end(self, received: int) -> None:
        """Count the messages of a receive that ends."""
        self.waiting -= 1
        self.receives += 1
        self.received += received
        self.last = self.used = monotonic()
        self.is_changed = True

    def add_deleted(self, count: int) -> None:
        """Count deleted messages."""
        self.deleted += count
        self.used = monotonic()
        self.is_changed = True


class ListedConsumer(msgspec.Struct, rename="pascal", omit_defaults=True):
    """A consumer of a queue, over all processes.

    It is HTTP's, without a key where its requests are unsigned, or a SQL session, whose numbers are
    unknown.
    """

    interface: Annotated[str, "case when application is null then 'HTTP' else 'SQL' end"]
    client_address: Annotated[str, "address"]
    processes: list[str]
    since_seconds: Annotated[int, whole("since")]
    waiting_receivers: Annotated[int, "waiting"]
    access_key_id: Annotated[
        str | None, "case when application is null then nullif(caller, '') end"
    ] = None
    user_agent: str | None = None
    receives: int | None = None
    received: int | None = None
    deleted: int | None = None
    role: Annotated[str | None, "case when application is not null then caller end"] = None
    application: str | None = None
    last_receive_seconds: Annotated[int | None, whole("last_receive")] = None
    user: Annotated[str | None, "null"] = None


_LIST = Search(f"select {columns(ListedConsumer)} from skipmq.queue_consumers($1)", BIGINT)


class Consumers(Flushed):
    """The consumers that this process serves; for one loop."""

    def __init__(self, database: Database, process: str) -> None:
        super().__init__(INTERVAL)
        self._database, self._process = database, process
        self._found: dict[tuple[int, str | None, str], Consumer] = {}
        self._counts: dict[int, int] = {}

    def counters(self, queue_id: int, key_id: str | None, request: Request) -> Consumer:
        """Return the counters of the caller of a queue that sent a request."""
        found = self._found.get((queue_id, key_id, request.client))
        return self._add(queue_id, key_id, request) if found is None else found

    def _add(self, queue_id: int, key_id: str | None, request: Request) -> Consumer:
        address, agent = request.client, request.headers.get("user-agent")
        count = self._counts.get(queue_id, 0)
        if count >= QUEUE_CONSUMERS or len(self._found) >= CONSUMERS:
            key_id, address, agent = None, OTHERS, None
            queue_id = queue_id if queue_id in self._counts else 0
        key = (queue_id, key_id, address)
        if key not in self._found:
            self._found[key] = Consumer(agent and agent[:USER_AGENT])
            self._counts[queue_id] = count + 1
        return self._found[key]

    async def queue(self, queue_id: int, deadline: float) -> list[ListedConsumer]:
        """Return the consumers of a queue, the most recent first."""
        with suppress(errors.SqsError):
            await self.flush()
        rows = await self._database.rows(_LIST, (queue_id,), deadline=deadline, tenant=queue_id)
        return [ListedConsumer(*row) for row in rows]

    async def _write(self) -> None:
        """Write the consumers that have changed or wait; forget idle ones.

        Raises errors.SqsError; what was not written is part of the next totals.
        """
        now = monotonic()
        changed = []
        for key, consumer in list(self._found.items()):
            if consumer.is_changed or consumer.waiting:
                changed.append((key, consumer))
                consumer.is_changed = False
            elif now - consumer.used > IDLE:
                del self._found[key]
                self._counts[key[0]] -= 1
                if not self._counts[key[0]]:
                    del self._counts[key[0]]
        if not changed:
            return
        queues = [queue_id for (queue_id, _, _), _ in changed]
        columns = (
            [key_id or "" for (_, key_id, _), _ in changed],
            [address for (_, _, address), _ in changed],
            [_milliseconds(now - each.since) for _, each in changed],
            [None if each.last is None else _milliseconds(now - each.last) for _, each in changed],
            [each.receives for _, each in changed],
            [each.received for _, each in changed],
            [each.deleted for _, each in changed],
            [each.waiting for _, each in changed],
            [each.user_agent for _, each in changed],
        )
        try:
            await self._database.rows_by_queue(_NOTE, (self._process,), queues, *columns)
        except BaseException:
            for _, consumer in changed:
                consumer.is_changed = True
            raise


def _milliseconds(seconds: float) -> int:
    return max(0, round(1000 * seconds))
