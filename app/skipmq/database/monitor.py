"""The state of the database, polled once a second and updated by errors, and its locks.

`unreachable`, `no_connection` and `read_only` are transient, as in a failover, and requests wait
until they end; `disk_full` and `no_privilege` need operator action, and requests fail at once.
`damaged` needs it too, but only requests that need a damaged page fail.
"""

import asyncio
from time import monotonic
from typing import NamedTuple

import psycopg

from skipmq.database.partitions import Database
from skipmq.database.pool import TABLE_LOCK
from skipmq.database.retry import has_no_slot, is_read_only
from skipmq.database.statement import Statement
from skipmq.database.wakeup import SharedRead, every
from skipmq.protocol import errors
from skipmq.telemetry.logs import log
from skipmq.telemetry.metrics import Observer

WRITABLE, UNREACHABLE, READ_ONLY = "writable", "unreachable", "read_only"
NO_CONNECTION, DISK_FULL, NO_PRIVILEGE = "no_connection", "disk_full", "no_privilege"
DAMAGED = "damaged"
STATES = (WRITABLE, UNREACHABLE, NO_CONNECTION, READ_ONLY, DISK_FULL, NO_PRIVILEGE, DAMAGED)
SERVING = frozenset({WRITABLE, DAMAGED})
TRANSIENT = frozenset({UNREACHABLE, NO_CONNECTION, READ_ONLY})

_STATE = Statement("select skipmq.database_state()")
_DAMAGE = Statement("select string_agg(error || ': ' || remedy, '; ') from skipmq.damaged_pages()")
_WATCH_DISK = "select skipmq.watch_disk()"
_INTERVAL = 1.0
# A tenant of its own: a busy queue must not delay the health check.
_HEALTH = "health"
# Seconds that a node stays ready while the database takes no writes; longer where requests wait
# longer. If a failover emptied the load balancer, it would refuse requests that nodes let wait.
READY_GRACE = 5.0
# The longest time for which readiness waits for the state and for locks: load balancers wait for a
# second.
_GLANCE = 0.3
# The age in seconds from which a lock is reported: maintenance holds one for a moment.
LOCK_REPORTED_AFTER = 10.0
# Seconds for which the oldest lock is cached.
_VALID_SECONDS = 1.0


class Monitor:
    """A monitor of a database's state, which logs and exports its changes; for one loop."""

    def __init__(self, database: Database, observer: Observer, failover_wait: float) -> None:
        self._database = database
        self._failover_wait = failover_wait
        self._failing_since: float | None = None
        self._observer = observer
        self._checked = -_INTERVAL
        self._watching: asyncio.Task[None] | None = None
        self._check = SharedRead(self.check)
        self.state = WRITABLE
        # The time of time.monotonic of the last change, and its cause in the server's words.
        self.since, self.reason = monotonic(), ""
        database.on_needs_operator(self._note_needs_operator)
        self._show()

    async def check(self) -> str:
        """Return the state, at most a second old."""
        availability = self._database.pool.availability
        if availability.failure is not None:
            self._mark_unavailable(availability.failure)
        elif monotonic() - self._checked >= _INTERVAL:
            await self._poll()
        return self.state

    async def can_serve(self) -> tuple[bool, str]:
        """Return whether requests are served, or wait through a transient state; and the state.

        Where queues are spread over partitions, one that is available is enough, without a router.
        While the database hangs, the state is the last one.
        """
        checked = await self._check.within(_GLANCE)
        state = checked.result() if checked else self.state
        serves = self._database.has_available_partition()
        if serves or (serves is None and state in SERVING):
            self._failing_since = None
            return True, state
        now = monotonic()
        self._failing_since = self._failing_since or now
        waits = self._failover_wait if serves is False or state in TRANSIENT else 0.0
        return now - self._failing_since <= max(READY_GRACE, waits), state

    async def run(self) -> None:
        """Poll the state until cancelled."""
        try:
            await every(_INTERVAL, self.check, "the state of the database cannot be read")
        finally:
            if self._watching is not None:
                self._watching.cancel()

    def refusal(self) -> errors.ServiceUnavailable:
        """Return the error for a request that cannot be served in the current state."""
        kinds: dict[str, type[errors.ServiceUnavailable]] = {
            NO_CONNECTION: errors.NoConnectionSlot,
            READ_ONLY: errors.DatabaseReadOnly,
            DISK_FULL: errors.DiskFull,
            NO_PRIVILEGE: errors.InsufficientPrivilege,
        }
        return kinds.get(self.state, errors.ServiceUnavailable)()

    async def _poll(self) -> None:
        try:
            ((state,),) = await self._database.rows(_STATE, tenant=_HEALTH)
        except errors.InsufficientPrivilege:
            return  # _note_needs_operator has set the state.
        except errors.ServiceUnavailable:
            failure = self._database.pool.availability.failure
            if failure is not None:
                self._mark_unavailable(failure)
            return  # Otherwise all connections are busy, or one has just broken.
        self._checked = monotonic()
        if state in SERVING and self._watching is not None and not self._watching.done():
            state = DISK_FULL  # _watch_disk has not reported it yet.
        if state == READ_ONLY:
            # Requests wait from now on, without trying to write first.
            self._database.pool.availability.mark_unavailable(
                psycopg.errors.ReadOnlySqlTransaction("the server is read-only")
            )
        self._change(state, await self._damage() if state == DAMAGED else None)

    async def _damage(self) -> str | None:
        try:
            ((damage,),) = await self._database.rows(_DAMAGE, tenant=_HEALTH)
        except errors.ServiceUnavailable:
            return self.reason
        return damage and str(damage)

    def _mark_unavailable(self, failure: Exception) -> None:
        self._change(state_of(failure), failure)

    def _note_needs_operator(self, error: errors.NeedsOperator) -> None:
        if isinstance(error, errors.InsufficientPrivilege):
            self._change(NO_PRIVILEGE, error.reason)
        elif isinstance(error, errors.DiskFull):
            self._change(DISK_FULL, error.reason)
            if self._watching is None or self._watching.done():
                self._watching = asyncio.get_running_loop().create_task(self._watch_disk())

    async def _watch_disk(self) -> None:
        """Keep a session open that shows all nodes that the disk is full, until it has space."""
        try:
            session = await self._database.pool.session()
        except psycopg.Error:
            return  # Unreachable now; the next statement that fails on a full disk starts again.
        try:
            while True:
                try:
                    await session.execute(_WATCH_DISK)
                except psycopg.errors.DiskFull:
                    await asyncio.sleep(_INTERVAL)
                else:
                    return
        except psycopg.Error as error:
            log.info("the session that watches the disk ended", error=" ".join(str(error).split()))
        finally:
            await session.close()

    def _change(self, state: str, reason: object = None) -> None:
        if state == self.state:
            if state == DAMAGED:
                self.reason = str(reason or "")
            return
        before, self.state = self.state, state
        self.since, self.reason = monotonic(), " ".join(str(reason or "").split())
        log.warning(
            "the state of the database changed",
            state=state,
            before=before,
            **({"reason": self.reason} if self.reason else {}),
        )
        self._show()

    def _show(self) -> None:
        self._observer.show("database available", float(self.state in SERVING))
        for state in STATES:
            self._observer.show("database state", float(state == self.state), (state,))


def state_of(failure: Exception | None) -> str:
    """Return the state of a database whose last probe failed, or did not."""
    if failure is None:
        return WRITABLE
    if has_no_slot(failure):
        return NO_CONNECTION
    return READ_ONLY if is_read_only(failure) else UNREACHABLE


class TableLock(NamedTuple):
    """The oldest lock of another session on the tables of messages, and that session.

    Its age in seconds is None where it cannot be seen.
    """

    seconds: float | None
    session: str


class TableLocks:
    """A cache of the oldest lock that keeps requests waiting; for one loop."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._reading = SharedRead(self._read)
        self._latest: tuple[float, TableLock | None] = (-_VALID_SECONDS, None)

    async def oldest(self, seconds: float = _GLANCE) -> TableLock | None:
        """Return the oldest lock from LOCK_REPORTED_AFTER on, at most a second old, or None.

        Where the database does not answer within `seconds`, return the latest.
        """
        if monotonic() - self._latest[0] >= _VALID_SECONDS:
            await self._reading.within(seconds)
        return self._latest[1]

    async def _read(self) -> None:
        found: TableLock | None = None
        try:
            for ((session, seconds),) in await self._database.rows_everywhere(TABLE_LOCK):
                if session is not None and (seconds is None or seconds >= LOCK_REPORTED_AFTER):
                    found = max(found, TableLock(seconds, session), key=_age)
        except errors.SqsError:
            return
        self._latest = (monotonic(), found)


def _age(lock: TableLock | None) -> float:
    return -1.0 if lock is None else lock.seconds or 0.0
