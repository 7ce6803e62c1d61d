"""Notify other processes of new messages, of changed queues, and of receivers that wait here.

A NOTIFY takes a cluster-wide lock at commit. So it is never part of a transaction on messages, is
sent at most every 10 ms by each process, and only for queues that receivers of other processes wait
on. The next poll makes up for a lost one (registry.py).
"""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic

from skipmq.database import DatabaseError
from skipmq.database.listener import Session
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


class Notifier:
    """A task that notifies on its own connection; its other methods neither wait nor fail."""

    def __init__(self, connect: Callable[[], Awaitable[Session]], process: str) -> None:
        self._connect = connect
        self._process = process
        self._pending: set[tuple[str, str]] = set()
        self._interest: dict[str, float] = {}
        self._announced: dict[str, float] = {}
        self._has_pending = asyncio.Event()

    def add_interest(self, queue: str) -> None:
        """Record that a receiver of another process waits on a queue."""
        if len(self._interest) > REMEMBERED:
            now = monotonic()
            self._interest = {q: until for q, until in self._interest.items() if until > now}
        self._interest[queue] = monotonic() + INTEREST

    def notify(self, queue: str) -> None:
        """Notify other processes of new messages in a queue, if their receivers wait on it."""
        until = self._interest.get(queue)
        if until is None:
            return
        if until < monotonic():
            self._interest.pop(queue, None)
            return
        self._enqueue(SENT, queue)

    def announce(self, queue: str) -> None:
        """Notify other processes that a receiver waits on a queue here."""
        now = monotonic()
        if self._announced.get(queue, 0) <= now:
            if len(self._announced) > REMEMBERED:
                self._announced.clear()
            self._announced[queue] = now + ANNOUNCE
            self._enqueue(WAITING, queue)

    def changed(self, queue: str) -> None:
        """Notify other processes that a queue was changed."""
        self._enqueue(CHANGED, queue)

    async def run(self) -> None:
        """Notify until cancelled."""
        session: Session | None = None
        try:
            while True:
                await self._has_pending.wait()
                try:
                    if session is None or not session.is_current:
                        if session is not None:
                            await session.close()
                        session = await self._open()
                    await self._send(session)
                except DatabaseError as error:
                    log.warning("notification lost", error=" ".join(str(error).split()))
                    await asyncio.sleep(_RETRY_SECONDS)
                except Exception:
                    log.exception("notifier failed")
                    await asyncio.sleep(_RETRY_SECONDS)
                await asyncio.sleep(INTERVAL)
        finally:
            if session is not None:
                await session.close()

    def _enqueue(self, kind: str, queue: str) -> None:
        self._pending.add((kind, queue))
        self._has_pending.set()

    async def _open(self) -> Session:
        session = await self._connect()
        await session.execute("set synchronous_commit = off")
        return session

    async def _send(self, session: Session) -> None:
        batch, self._pending = self._pending, set()
        self._has_pending.clear()
        for payload in payloads(self._process, batch):
            await session.execute("select pg_notify(%s, %s)", (CHANNEL, payload))


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
