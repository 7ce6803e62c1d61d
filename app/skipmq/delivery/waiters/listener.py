"""Hears what other processes say: who is to wake here, who waits elsewhere, what was changed."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from skipmq.database import DatabaseError
from skipmq.database.listener import Session
from skipmq.delivery.waiters.notifier import (
    CHANGED,
    CHANNEL,
    KEYS,
    SENT,
    WAITING,
    Notifier,
)
from skipmq.delivery.waiters.registry import Waiters

log = structlog.get_logger()

# How many are woken by a notification, which does not say how many messages there are: those who
# find some leave, and pass the wake-up on.
WOKEN = 2
_RETRY_SECONDS = 1.0


class Listener:
    """A task with a connection of its own, which it opens again when it is lost."""

    def __init__(  # noqa: PLR0913, PLR0917 - what it works with.
        self,
        connect: Callable[[], Awaitable[Session]],
        process: str,
        waiters: Waiters,
        notifier: Notifier,
        forget: Callable[[str | None], None],
        keys_changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._connect = connect
        self._process = process
        self._waiters = waiters
        self._notifier = notifier
        # What is cached of a queue, or of all.
        self._forget = forget
        self._keys_changed = keys_changed

    async def run(self) -> None:
        """Listen until it is cancelled."""
        while True:
            try:
                await self._listen()
            except DatabaseError as error:
                log.warning("listener lost its connection", error=" ".join(str(error).split()))
                await asyncio.sleep(_RETRY_SECONDS)
            except Exception:
                log.exception("listener failed")
                await asyncio.sleep(_RETRY_SECONDS)

    async def _listen(self) -> None:
        session = await self._connect()
        try:
            await session.execute(f"listen {CHANNEL}")
            # What was said while nobody listened is lost: everybody polls once.
            self._forget(None)
            self._keys_changed()
            self._waiters.wake_all()
            while session.is_current:
                async for payload in session.notifications(seconds=1):
                    self.hear(payload)
        finally:
            await session.close()

    def hear(self, payload: str) -> None:
        """Act on one notification."""
        process, kind, *queues = payload.split(" ") if payload.count(" ") > 1 else ("", "")
        if process == self._process:
            return
        for queue in queues:
            if kind == SENT:
                self._waiters.wake(queue, WOKEN)
            elif kind == WAITING:
                self._notifier.somebody_waits(queue)
            elif kind == CHANGED:
                self._forget(queue)
            elif kind == KEYS:
                self._keys_changed()
