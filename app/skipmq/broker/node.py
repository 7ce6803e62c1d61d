"""The node: the parts of one worker process, the context that all actions are passed."""

import asyncio
import os
import secrets
from collections.abc import Coroutine
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from skipmq.broker import workers
from skipmq.broker.audit_log import Audit
from skipmq.broker.consumers import Activity, Consumers
from skipmq.broker.messages import notifier
from skipmq.broker.messages.budget import Budget
from skipmq.broker.messages.fifo import FifoMessages
from skipmq.broker.messages.in_flight import InFlight
from skipmq.broker.messages.notifier import Notifier
from skipmq.broker.messages.receipts import ReceiptKeys
from skipmq.broker.messages.standard import StandardMessages
from skipmq.broker.messages.waiters import Waiters
from skipmq.broker.minutes import RecentMinutes
from skipmq.broker.overview import Overviews
from skipmq.broker.queues import Queue, Queues
from skipmq.broker.refusals import Refusals
from skipmq.broker.topics import Topics
from skipmq.config.settings import Settings
from skipmq.database import monitor
from skipmq.database.monitor import Monitor, TableLocks
from skipmq.database.partitions import Database
from skipmq.database.pool import CONNECTION_WAIT
from skipmq.database.replication import Replication
from skipmq.database.wakeup import listen
from skipmq.telemetry.metrics import Observer

if TYPE_CHECKING:
    from skipmq.broker.key_store import KeyStore
    from skipmq.telemetry.tracing import Tracing


class Runnable(Protocol):
    """A part that runs until cancelled."""

    def run(self) -> Coroutine[Any, Any, None]:
        """Run until cancelled."""


class Node:
    """A node; for one loop, on which it is created."""

    def __init__(
        self,
        settings: Settings,
        database_url: str,
        observer: Observer | None = None,
        tracing: "Tracing | None" = None,
    ) -> None:
        self.settings = settings
        self.observer = observer or Observer()
        self.tracing = tracing
        self.process = f"{os.getpid()}-{secrets.token_hex(4)}"
        self.database = Database(
            database_url,
            size=settings.connections,
            connection_wait=max(CONNECTION_WAIT, 2 * settings.database_deadline),
            seconds=settings.database_deadline,
            observer=self.observer,
            application_name=f"skipmq {self.process}",
        )
        self.monitor = Monitor(self.database, self.observer, settings.failover_wait)
        self.replication = Replication(self.database)
        self.table_locks = TableLocks(self.database)
        # The memory of message bodies.
        self.budget = Budget()
        parts = (self.database, self.replication, tracing, self.budget)
        self.standard, self.fifo = StandardMessages(*parts), FifoMessages(*parts)
        self.in_flight = InFlight(self.database)
        self.notifier = Notifier(self.database, self.process)
        self.queues = Queues(self.database, self.notifier.changed)
        self.topics = Topics(self.database, self.notifier.changed)
        self.activity = Activity(self.database)
        self.consumers = Consumers(self.database, self.process)
        self.minutes = RecentMinutes(self.database)
        self.overviews = Overviews(self.database, self.replication)
        self.refusals = Refusals(self.database, self.observer, settings.account, settings.region)
        self.audit = Audit(self.database, writes=settings.audit_days > 0)
        self.receipt_keys = ReceiptKeys(self.database)
        self.waiters = Waiters(settings.max_waiting, tracing)
        # The access keys, if requests must be signed.
        self.keys = _key_store(settings, self.database) if settings.checks_signatures else None
        self._tasks: list[asyncio.Task[None]] = []
        self.is_open = self.is_stopping = False

    async def open(self) -> None:
        """Load the keys, without which no request can be served.

        Raises errors.ServiceUnavailable while the database is not writable.
        """
        if await self.monitor.check() not in monitor.SERVING:
            raise self.monitor.refusal()
        await self.database.open_partitions()
        await self.receipt_keys.refresh()
        if self.keys is not None:
            await self.keys.refresh()
        self.is_open = True

    def check_open(self) -> None:
        """Raise errors.ServiceUnavailable until the node is open."""
        if not self.is_open:
            raise self.monitor.refusal()

    def start(self, *others: Runnable) -> None:
        """Start the tasks of the node, and `others` of this process."""
        loop = asyncio.get_running_loop()
        own = (self.keys,) if self.keys is not None else ()
        parts: tuple[Runnable, ...] = (
            self.monitor, self.overviews, self.activity, self.consumers, self.audit,
            self.refusals, self.receipt_keys, self.notifier, *own, *others,
        )  # fmt: skip
        listening = listen(self.database.partitions(), notifier.CHANNEL, self._handle)
        self._tasks = [
            loop.create_task(each) for each in [listening, *(part.run() for part in parts)]
        ]

    def announce_stop(self) -> None:
        """Report not ready, and serve on until the load balancer has noticed."""
        self.is_stopping = True

    def drain(self) -> None:
        """Report not ready, and end all waits of receivers and for the database."""
        self.announce_stop()
        self.waiters.stop()
        self.database.stop()

    async def settle(self) -> None:
        """Stop the tasks, and write what was counted and noted until now."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        noted = (self.audit, self.activity, self.consumers, self.refusals)
        await asyncio.gather(*(each.close() for each in noted))

    async def close(self) -> None:
        """Stop the tasks, close the database connections, and export the last spans."""
        self.drain()
        try:
            await self.settle()
            if self._tasks:  # A command's node is not listed among the workers.
                await workers.leave(self.database, self.process)
        finally:
            self.database.close()
        if self.tracing is not None:
            # Not in a thread of the loop's: there are none any more where a WSGI server ends.
            self.tracing.close()

    def messages(self, queue: Queue) -> StandardMessages | FifoMessages:
        """Return the functions for messages of a queue's type."""
        return self.fifo if queue.fifo else self.standard

    def deadline(self) -> float:
        """Return the time of time.monotonic until which a new request may wait for the database."""
        return monotonic() + self.settings.failover_wait

    def _handle(self, payload: str | None) -> None:
        """Handle a notification of another process; None where earlier ones may be lost."""
        if payload is None:
            # Reset the caches and poll each queue.
            self._forget(None)
            self._keys_changed()
            self.waiters.wake_all()
            return
        process, kind, *queues = payload.split(" ") if payload.count(" ") > 1 else ("", "")
        if process == self.process:
            return
        for queue in queues:
            if kind == notifier.SENT:
                self.waiters.wake(queue, notifier.WOKEN)
            elif kind == notifier.WAITING:
                self.notifier.add_interest(queue)
            elif kind == notifier.CHANGED:
                self._forget(queue)
            elif kind == notifier.KEYS:
                self._keys_changed()

    def _keys_changed(self) -> None:
        self.receipt_keys.changed()
        if self.keys is not None:
            self.keys.changed()

    def sent(self, queue: Queue, count: int) -> None:
        """Wake receivers of a queue, on all nodes, for `count` visible messages."""
        self.waiters.wake(queue.name.arn, count)
        self.notifier.notify(queue.name.arn, queue.id)

    def _forget(self, arn: str | None) -> None:
        self.queues.forget(arn)
        self.topics.forget(arn)

    async def readiness(self) -> tuple[bool, str]:
        """Return whether the node is ready, and the state of the database."""
        can_serve, state = await self.monitor.can_serve()
        return can_serve and self.is_open and not self.is_stopping, state


def _key_store(settings: Settings, database: Database) -> "KeyStore":
    # Imported late, because commands do not need it, nor cryptography.
    from skipmq.broker.key_store import KeyStore  # noqa: PLC0415

    return KeyStore(settings, database)
