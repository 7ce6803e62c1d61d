"""Tells other processes that a queue has new messages or was changed, and who waits on it here.

A NOTIFY takes a lock of the whole cluster when it commits: so there is never one in the transaction
of a message, at most one each 10 ms and process, and only for queues that somebody elsewhere waits
on. One that is lost is made up for by the next poll (registry.py).
"""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic

import structlog

from skipmq.database import DatabaseError
from skipmq.database.listener import Session

log = structlog.get_logger()

CHANNEL = "skipmq"
SENT, WAITING, CHANGED = "sent", "waiting", "changed"
# By the functions of the database that change access keys.
KEYS = "keys"
INTERVAL = 0.010
PAYLOAD_BYTES = 7_900
# Announced again when the last announcement is older than ANNOUNCE; believed for INTEREST. No
# receiver waits longer than 20 s, so that interest never lapses while somebody waits.
ANNOUNCE, INTEREST = 5.0, 30.0
REMEMBERED = 10_000
_RETRY_SECONDS = 1.0


class Notifier:
    """A task with a connection of its own; what it is given never waits and never fails."""

    def __init__(self, connect: Callable[[], Awaitable[Session]], process: str) -> None:
        self._connect = connect
        self._process = process
        self._pending: set[tuple[str, str]] = set()
        self._interest: dict[str, float] = {}
        self._announced: dict[str, float] = {}
        self._wanted = asyncio.Event()

    def somebody_waits(self, queue: str) -> None:
        """Note that another process waits on a queue."""
        if len(self._interest) > REMEMBERED:
            now = monotonic()
            self._interest = {q: until for q, until in self._interest.items() if until > now}
        self._interest[queue] = monotonic() + INTEREST

    def notify(self, queue: str) -> None:
        """Tell the others that a queue has new messages, if one of them waits."""
        until = self._interest.get(queue)
        if until is None:
            return
        if until < monotonic():
            self._interest.pop(queue, None)
            return
        self._enqueue(SENT, queue)

    def announce(self, queue: str) -> None:
        """Tell the others that somebody here waits on a queue."""
        now = monotonic()
        if self._announced.get(queue, 0) <= now:
            if len(self._announced) > REMEMBERED:
                self._announced.clear()
            self._announced[queue] = now + ANNOUNCE
            self._enqueue(WAITING, queue)

    def changed(self, queue: str) -> None:
        """Tell the others that what they cache of a queue is out of date."""
        self._enqueue(CHANGED, queue)

    async def run(self) -> None:
        """Notify until it is cancelled."""
        session: Session | None = None
        try:
            while True:
                await self._wanted.wait()
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
        self._wanted.set()

    async def _open(self) -> Session:
        session = await self._connect()
        await session.execute("set synchronous_commit = off")
        return session

    async def _send(self, session: Session) -> None:
        batch, self._pending = self._pending, set()
        self._wanted.clear()
        for payload in payloads(self._process, batch):
            await session.execute("select pg_notify(%s, %s)", (CHANNEL, payload))


def payloads(process: str, batch: set[tuple[str, str]]) -> list[str]:
    """Return notifications for a batch of (kind, queue), each below PostgreSQL's 8,000 bytes.

    The form is `PROCESS KIND QUEUE QUEUE…`.
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
