"""The node: what one worker process has; the one object that is passed around."""

import asyncio
import os
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import structlog

from skipmq import errors
from skipmq.database import Database, Monitor, NoObserver, Observer, Replication, monitor
from skipmq.delivery import InFlight, Messages
from skipmq.delivery.group_commit import GroupCommit
from skipmq.delivery.waiters import Listener, Notifier, Waiters
from skipmq.key_store import KeyStore
from skipmq.model import Queue, QueueName
from skipmq.settings import Settings
from skipmq.store import (
    Activity,
    Audit,
    DeadLetters,
    Inspection,
    Moves,
    Overview,
    Queues,
    ReceiptKeys,
    Statistics,
    Timelines,
)

if TYPE_CHECKING:
    from skipmq.telemetry.tracing import Tracing

log = structlog.get_logger()

# What others change is notified at once; what is changed in SQL, or was missed, is known then.
CACHE_SECONDS = 5.0
CACHED_QUEUES = 10_000
# A node stays ready this long while nothing can be written, or as long as requests wait for that: a
# failover must not empty the balancer, which would refuse what the node lets wait.
READY_GRACE = 5.0
TRIES = 3
# As many as come: one lookup answers them all.
MANY = 2**31

T = TypeVar("T")


class Runnable(Protocol):
    """Something that works until it is cancelled."""

    def run(self) -> Coroutine[Any, Any, None]:
        """Run until it is cancelled."""


class Node:
    """What an action works with; for one loop, on which it is made."""

    def __init__(
        self,
        settings: Settings,
        database_url: str,
        observer: Observer | None = None,
        tracing: "Tracing | None" = None,
    ) -> None:
        self.settings = settings
        self.observer = observer or NoObserver()
        self.tracing = tracing
        self.process = f"{os.getpid()}-{secrets.token_hex(4)}"
        self.database = Database(
            database_url,
            size=settings.connections,
            connection_wait=settings.connection_wait,
            seconds=settings.database_deadline,
            observer=self.observer,
            application_name=f"skipmq {self.process}",
        )
        self.monitor = Monitor(self.database, self.observer)
        self.replication = Replication(self.database)
        self.messages = Messages(
            self.database, self.replication, settings.max_transaction_messages, tracing=tracing
        )
        self.in_flight = InFlight(self.messages)
        self.inspection = Inspection(self.database)
        self.moves = Moves(self.database)
        self.queues = Queues(self.database)
        self.activity = Activity(self.database)
        self.statistics = Statistics(self.database)
        self.overview = Overview(self.database, self.replication)
        self.dead_letters = DeadLetters(self.database)
        self.audit = Audit(self.database, writes=settings.audit_days > 0)
        self.timelines = Timelines(self.database)
        self.receipt_keys = ReceiptKeys(self.database)
        self.waiters = Waiters(settings.max_waiting, tracing)
        # Who may sign, where requests must be signed.
        self.keys = KeyStore(settings, self.database) if settings.checks_signatures else None
        self.notifier = Notifier(self.database.session, self.process)
        self._listener = Listener(
            self.database.session,
            self.process,
            self.waiters,
            self.notifier,
            self._forget,
            self._keys_changed,
        )
        self._tasks: list[asyncio.Task[None]] = []
        # Of many requests that look the same queue up, one asks for all.
        self._lookups = GroupCommit(self._look_up, most=MANY)
        # By ARN, with the time of time.monotonic until which it counts.
        self._cache: dict[str, tuple[float, Queue]] = {}
        # By ARN what other accounts than the owner's have seen of it, queues that are absent too.
        self._seen: dict[str, dict[str, tuple[float, Queue | None]]] = {}
        self._changes = 0
        self.is_open = self.is_stopping = False
        self._failing_since: float | None = None

    async def open(self) -> None:
        """Read what a node must know before it can answer.

        Raises errors.ServiceUnavailable while the database cannot be written to.
        """
        if await self.monitor.check() != monitor.WRITABLE:
            raise self.monitor.refusal()
        await self.receipt_keys.refresh()
        if self.keys is not None:
            await self.keys.refresh()
        self.is_open = True

    def check_open(self) -> None:
        """Raise errors.ServiceUnavailable while the node has not been opened."""
        if not self.is_open:
            raise self.monitor.refusal()

    def start(self, *others: Runnable) -> None:
        """Begin to listen and to notify, and to run what else this process runs."""
        loop = asyncio.get_running_loop()
        own = (self.keys,) if self.keys is not None else ()
        parts: tuple[Runnable, ...] = (
            self.monitor, self.overview, self.activity, self.audit, self.receipt_keys,
            self._listener, self.notifier, *own, *others,
        )  # fmt: skip
        self._tasks = [loop.create_task(part.run()) for part in parts]

    def leave(self) -> None:
        """Refuse to be ready, and serve on until the balancer has seen it."""
        self.is_stopping = True

    def drain(self) -> None:
        """End all waiting and refuse to be ready: the node is about to stop."""
        self.leave()
        self.waiters.stop()
        self.database.stop()

    async def close(self) -> None:
        """Close the connections to the database; export the last spans."""
        self.drain()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.audit.flush()
        self.database.close()
        if self.tracing is not None:
            await asyncio.to_thread(self.tracing.close)

    def deadline(self) -> float:
        """Return until when a request that begins now may wait for a database."""
        return monotonic() + self.settings.failover_wait

    @property
    def cached_queues(self) -> int:
        """Return how many queues need not be looked up."""
        return len(self._cache)

    async def queue(self, name: QueueName, deadline: float) -> Queue:
        """Return a queue as it was at most CACHE_SECONDS ago.

        Raises errors.QueueDoesNotExist.
        """
        return self._known(name) or await self._looked_up(name, deadline)

    def _known(self, name: QueueName) -> Queue | None:
        known = self._cache.get(name.arn)
        return known[1] if known is not None and known[0] > monotonic() else None

    async def _looked_up(self, name: QueueName, deadline: float) -> Queue:
        now, changes = monotonic(), self._changes
        queue = await self._lookups.submit(name, None, 1, deadline)
        if queue is None:
            self._cache.pop(name.arn, None)
            raise errors.QueueDoesNotExist
        if changes == self._changes:  # Otherwise it may be how it was before.
            if len(self._cache) >= CACHED_QUEUES:
                self._cache.clear()
            self._cache[name.arn] = (now + CACHE_SECONDS, queue)
        return queue

    async def queue_seen_by(self, account: str, name: QueueName, deadline: float) -> Queue | None:
        """Return a queue that another account asks for, or None where there is none.

        Each account has the database asked for itself, whether there is the queue, and is used by
        others, or not: the time that an answer takes must not reveal it.
        """
        now = monotonic()
        known = self._seen.get(name.arn, {}).get(account)
        if known is not None and known[0] > now:
            return known[1]
        changes = self._changes
        queue = await self._lookups.submit(name, None, 1, deadline)
        if changes == self._changes:
            if len(self._seen) >= CACHED_QUEUES:
                self._seen.clear()
            self._seen.setdefault(name.arn, {})[account] = (now + CACHE_SECONDS, queue)
        return queue

    def forget(self, name: QueueName) -> None:
        """Look a queue up again the next time."""
        self._forget(name.arn)

    def changed(self, name: QueueName) -> None:
        """Look a queue up again the next time, here and elsewhere."""
        self._forget(name.arn)
        self.notifier.changed(name.arn)

    def _forget(self, queue: str | None) -> None:
        self._changes += 1
        if queue is None:
            self._cache.clear()
            self._seen.clear()
        else:
            self._cache.pop(queue, None)
            self._seen.pop(queue, None)

    def _keys_changed(self) -> None:
        self.receipt_keys.changed()
        if self.keys is not None:
            self.keys.changed()

    async def on_queue(
        self, name: QueueName, deadline: float, operation: Callable[[Queue], Awaitable[T]]
    ) -> T:
        """Run an operation on a queue, again if the queue was purged or created again meanwhile."""
        for _ in range(TRIES):
            try:
                queue = self._known(name) or await self._looked_up(name, deadline)
                return await operation(queue)
            except errors.QueueMoved:
                self.forget(name)
        raise errors.QueueDoesNotExist

    def sent(self, name: QueueName, count: int) -> None:
        """Wake receivers, here and elsewhere, for messages that have been stored."""
        self.waiters.wake(name.arn, count)
        self.notifier.notify(name.arn)

    async def check_replication(self, mode: str, deadline: float) -> None:
        """Compare what a queue asks for with what the cluster gives.

        Raises errors.InvalidAttributeValue, or logs a warning, as the settings say.
        """
        level = await self.replication.level(deadline)
        lacking = level.lacks(mode)
        if lacking is None:
            return
        if self.settings.refuses_unreplicated:
            raise errors.InvalidAttributeValue(
                f"Invalid value for the parameter ReplicationMode. Reason: {mode}: {lacking}."
            )
        log.warning("a queue asks for more than the cluster gives", mode=mode, lacking=lacking)

    async def readiness(self) -> tuple[bool, str]:
        """Return whether the node should get requests, and the state of the database."""
        state = await self.monitor.check()
        if state == monitor.WRITABLE:
            self._failing_since = None
            return self.is_open and not self.is_stopping, state
        now = monotonic()
        self._failing_since = self._failing_since or now
        waits = self.settings.failover_wait if state in monitor.PASSING else 0.0
        is_late = now - self._failing_since > max(READY_GRACE, waits)
        return self.is_open and not (is_late or self.is_stopping), state

    async def _look_up(
        self, name: QueueName, requests: Sequence[None], deadline: float
    ) -> list[Queue | None]:
        return [await self.queues.get(name, deadline)] * len(requests)
