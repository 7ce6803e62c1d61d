"""The node: what one worker process has; the one object that is passed around."""

import os
import secrets
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TypeVar

import structlog

from skipmq import errors
from skipmq.admission import Admission
from skipmq.config import Settings
from skipmq.model import Queue, QueueName
from skipmq.store import (
    Database,
    GroupCommit,
    InFlight,
    Inspection,
    Messages,
    Moves,
    Observer,
    Queues,
    Replication,
    Unobserved,
)
from skipmq.waiters import Listener, Notifier, Waiters

log = structlog.get_logger()

# What others change is heard at once; what is changed in SQL, or was not heard, is known then.
CACHE_SECONDS = 5.0
CACHED_QUEUES = 10_000
# A node stays ready this long without a database, or as long as requests wait for one if that is
# longer: a failover must not empty the balancer, which would refuse what the node lets wait.
READY_GRACE = 5.0
# An answer of the database within this time shows that it is there, without asking.
ANSWER_COUNTS = 1.0
TRIES = 3
# Asks in a turn of its own: the node is not ill because the catalogue is busy.
_HEALTH = "health"
# As many as come: one look answers them all.
MANY = 2**31

T = TypeVar("T")


class Node:
    """What an action works with; safe for threads."""

    def __init__(
        self, settings: Settings, database_url: str, observer: Observer | None = None
    ) -> None:
        self.settings = settings
        observer = observer or Unobserved()
        self.admission = Admission(settings.threads, note=observer.count)
        self.process = f"{os.getpid()}-{secrets.token_hex(4)}"
        self.database = Database(
            database_url,
            size=settings.connections,
            patience=settings.connection_wait,
            failover=settings.failover_wait,
            deadline=settings.database_deadline,
            observer=observer,
            application_name=f"skipmq {self.process}",
        )
        self.replication = Replication(self.database)
        self.messages = Messages(self.database, self.replication, settings.max_transaction_messages)
        self.in_flight = InFlight(self.messages)
        self.inspection = Inspection(self.database)
        self.moves = Moves(self.database)
        self.queues = Queues(self.database)
        try:
            with self.database.on_behalf_of(None, patience=0):
                self.receipt_key = self.queues.receipt_key()
        except errors.ServiceUnavailable:
            self.database.close()
            raise
        self.waiters = Waiters()
        self.notifier = Notifier(self.database.session, self.process)
        self.listener = Listener(
            self.database.session, self.process, self.waiters, self.notifier, self._forget
        )
        # Of many requests that look the same queue up, one asks for all.
        self._lookups = GroupCommit(self._look_up, most=MANY)
        # By ARN, with the stopwatch's time until which it counts.
        self._cache: dict[str, tuple[float, Queue]] = {}
        self._changes = 0
        self._leaving = False
        self._failing_since: float | None = None

    def start(self) -> None:
        """Begin to listen and to notify."""
        self.notifier.start()
        self.listener.start()

    def leave(self) -> None:
        """Refuse to be ready, and serve on until the balancer has seen it."""
        self._leaving = True

    def drain(self) -> None:
        """Send all who wait home and refuse to be ready: the node is about to stop."""
        self.leave()
        self.waiters.stop()
        self.database.stop()

    def close(self) -> None:
        """Let go of the database."""
        self.drain()
        self.listener.stop()
        self.notifier.stop()
        self.database.close()

    def queue(self, name: QueueName) -> Queue:
        """Return a queue as it was at most CACHE_SECONDS ago.

        Raises errors.QueueDoesNotExist.
        """
        now = monotonic()
        known = self._cache.get(name.arn)
        if known is not None and known[0] > now:
            return known[1]
        changes = self._changes
        with self.database.on_behalf_of(name):
            (queue,) = self._lookups.submit(name, None)
        if queue is None:
            self._cache.pop(name.arn, None)
            raise errors.QueueDoesNotExist
        if len(self._cache) >= CACHED_QUEUES:
            self._cache.clear()
        self._cache[name.arn] = (now + CACHE_SECONDS, queue)
        if changes != self._changes:  # It may be how it was before.
            self._cache.pop(name.arn, None)
        return queue

    def forget(self, name: QueueName) -> None:
        """Look a queue up anew the next time."""
        self._forget(name.arn)

    def changed(self, name: QueueName) -> None:
        """Look a queue up anew the next time, here and elsewhere."""
        self._forget(name.arn)
        self.notifier.changed(name.arn)

    def _forget(self, queue: str | None) -> None:
        self._changes += 1
        if queue is None:
            self._cache.clear()
        else:
            self._cache.pop(queue, None)

    def on_queue(self, name: QueueName, operation: Callable[[Queue], T]) -> T:
        """Run an operation on a queue, again if the queue was purged or made anew meanwhile."""
        with self.database.on_behalf_of(name):
            for _ in range(TRIES):
                try:
                    return operation(self.queue(name))
                except errors.QueueMoved:
                    self.forget(name)
        raise errors.QueueDoesNotExist

    def sent(self, name: QueueName, count: int) -> None:
        """Wake receivers, here and elsewhere, for messages that have been stored."""
        self.waiters.wake(name.arn, count)
        self.notifier.notify(name.arn)

    def check_replication(self, mode: str) -> None:
        """Compare what a queue asks for with what the cluster gives.

        Raises errors.InvalidAttributeValue, or logs a warning, as the settings say.
        """
        lacking = self.replication.level().lacks(mode)
        if lacking is None:
            return
        told = f"Invalid value for the parameter ReplicationMode. Reason: {mode}: {lacking}."
        if self.settings.refuses_unreplicated:
            raise errors.InvalidAttributeValue(told)
        log.warning("a queue asks for more than the cluster gives", mode=mode, lacking=lacking)

    def replicated(self) -> str:
        """Return in words what the cluster gives of replication.

        Raises errors.ServiceUnavailable.
        """
        with self.database.on_behalf_of(_HEALTH, patience=0):
            return str(self.replication.level())

    def readiness(self) -> str | None:
        """Return why the node should get no requests, or None when it should."""
        if self._leaving:
            return "stopping"
        now = monotonic()
        if now - self.database.last_answer < ANSWER_COUNTS or self._database_is_writable():
            self._failing_since = None
            return None
        self._failing_since = self._failing_since or now
        grace = max(READY_GRACE, self.settings.failover_wait)
        return "no database to write to" if now - self._failing_since > grace else None

    def _look_up(self, name: QueueName, requests: Sequence[None]) -> list[tuple[Queue | None]]:
        return [(self.queues.get(name),)] * len(requests)

    def _database_is_writable(self) -> bool:
        try:
            with self.database.on_behalf_of(_HEALTH, patience=0):
                ((read_only,),) = self.database.rows(
                    "select current_setting('transaction_read_only')"
                )
        except errors.ServiceUnavailable:
            return False
        return bool(read_only == "off")
