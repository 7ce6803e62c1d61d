"""Notifications between processes: new messages, changed queues, and waiting receivers.

A NOTIFY takes a cluster-wide lock at commit. So it is never part of a transaction on messages, is
sent at most every 10 ms by each process, and only for queues that receivers of other processes wait
on. The next poll makes up for a lost one (waiters.py).

Where queues are spread over partitions it is sent in the one that has the queue, which then needs
no other one.
"""

import asyncio
from time import monotonic

from skipmq.database.connection import Session
from skipmq.database.partitions import Database
from skipmq.database.pool import Pool
from skipmq.database.retry import DatabaseError
from skipmq.telemetry.logs import log

CHANNEL = "skipmq"
SENT, WAITING, CHANGED = "sent", "waiting", "changed"
# Sent by the SQL functions that change access keys.
KEYS = "keys"
INTERVAL = 0.010
PAYLOAD_BYTES = 7_900
# Seconds between two announcements of a waiting receiver, and that one is valid. No receiver waits
# longer than 20 s, so that interest never expires during a wait.
ANNOUNCE, INTEREST = 5.0, 30.0
REMEMBERED = 10_000
_RETRY_SECONDS = 1.0
# No receiver waits for a disk: who misses a notification polls.
_NOTIFY = "select set_config('synchronous_commit', 'off', true), pg_notify(%s, %s)"
# The waiters to wake on a notification, which has no number of messages; a waiter that finds some
# wakes the next.
WOKEN = 2


class Notifier:
    """Tasks that notify on a connection of their own to each database; for one loop.

    The other methods neither wait nor fail.
    """

    def __init__(self, database: Database, process: str) -> None:
        self._database = database
        self._process = process
        self._outboxes: dict[Pool, _Outbox] = {}
        self._interest: dict[str, float] = {}
        self._announced: dict[str, float] = {}

    def add_interest(self, queue: str) -> None:
        """Record that a receiver of another process waits on a queue."""
        if len(self._interest) > REMEMBERED:
            now = monotonic()
            self._interest = {q: until for q, until in self._interest.items() if until > now}
        self._interest[queue] = monotonic() + INTEREST

    def notify(self, queue: str, id_: int) -> None:
        """Notify other processes of new messages in a queue, if their receivers wait on it."""
        until = self._interest.get(queue)
        if until is None:
            return
        if until < monotonic():
            self._interest.pop(queue, None)
            return
        self._enqueue(SENT, queue, id_)

    def announce(self, queue: str, id_: int) -> None:
        """Notify other processes that a receiver waits on a queue here."""
        now = monotonic()
        if self._announced.get(queue, 0) <= now:
            if len(self._announced) > REMEMBERED:
                self._announced.clear()
            self._announced[queue] = now + ANNOUNCE
            self._enqueue(WAITING, queue, id_)

    def changed(self, queue: str, id_: int | None) -> None:
        """Notify other processes that a queue was changed; without an id it may be anywhere."""
        self._enqueue(CHANGED, queue, id_)

    async def run(self) -> None:
        """Notify until cancelled."""
        async with asyncio.TaskGroup() as group:
            async for pool in self._database.partitions():
                group.create_task(self._outbox(pool).run())

    def _enqueue(self, kind: str, queue: str, id_: int | None) -> None:
        known = self._database.known()
        pool = known[0] if id_ is None else self._database.partition(id_)
        if id_ is None or pool not in known:
            available = (each for each in known if not each.availability.is_unavailable)
            pool = next(available, known[0])
        self._outbox(pool).add(kind, queue)

    def _outbox(self, pool: Pool) -> "_Outbox":
        return self._outboxes.setdefault(pool, _Outbox(pool, self._process))


class _Outbox:
    """The notifications to send in one database."""

    def __init__(self, pool: Pool, process: str) -> None:
        self._pool = pool
        self._process = process
        self._pending: set[tuple[str, str]] = set()
        self._has_pending = asyncio.Event()

    def add(self, kind: str, queue: str) -> None:
        self._pending.add((kind, queue))
        self._has_pending.set()

    async def run(self) -> None:
        session: Session | None = None
        try:
            while True:
                await self._has_pending.wait()
                try:
                    if session is None or not session.is_current:
                        if session is not None:
                            await session.close()
                        await self._pool.availability.wait_until_available()
                        session = await self._pool.session()
                    await self._send(session)
                except DatabaseError as error:
                    log.warning("notifications delayed", error=" ".join(str(error).split()))
                    await asyncio.sleep(_RETRY_SECONDS)
                except Exception:
                    log.exception("notifier failed")
                    await asyncio.sleep(_RETRY_SECONDS)
                await asyncio.sleep(INTERVAL)
        finally:
            if session is not None:
                await session.close()

    async def _send(self, session: Session) -> None:
        batch, self._pending = self._pending, set()
        self._has_pending.clear()
        try:
            for payload in payloads(self._process, batch):
                await session.execute(_NOTIFY, (CHANNEL, payload))
        except DatabaseError:
            for kind, queue in batch:
                self.add(kind, queue)
            raise


def payloads(process: str, batch: set[tuple[str, str]]) -> list[str]:
    """Return payloads `PROCESS KIND QUEUE QUEUE…` for (kind, queue) pairs.

    Each has less than PostgreSQL's limit of 8,000 bytes.
    """
    result = []
    for kind in (CHANGED, SENT, WAITING):
        head = f"{process} {kind}"
        payload = head
        for queue in sorted(q for k, q in batch if k == kind):
            if len(payload) + 1 + len(queue) > PAYLOAD_BYTES:  # ARNs are ASCII.
                result.append(payload)
                payload = head
            payload += " " + queue
        if payload != head:
            result.append(payload)
    return result
