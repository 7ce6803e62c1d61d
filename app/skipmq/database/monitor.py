"""What a node can do with its database, in one word, found out once a second and by errors.

`unreachable`, `no_connection` and `read_only` may end by themselves, as in a failover, and requests
wait for that; `disk_full` and `no_privilege` last until an operator acts, and requests get their
error at once.
"""

import asyncio
from time import monotonic

import psycopg
import structlog

from skipmq import errors
from skipmq.database.availability import Observer
from skipmq.database.pool import Database, has_no_slot, is_read_only
from skipmq.database.statement import Statement

log = structlog.get_logger()

WRITABLE, UNREACHABLE, READ_ONLY = "writable", "unreachable", "read_only"
NO_CONNECTION, DISK_FULL, NO_PRIVILEGE = "no_connection", "disk_full", "no_privilege"
STATES = (WRITABLE, UNREACHABLE, NO_CONNECTION, READ_ONLY, DISK_FULL, NO_PRIVILEGE)
# These may end by themselves.
PASSING = frozenset({UNREACHABLE, NO_CONNECTION, READ_ONLY})

_STATE = Statement("select skipmq.database_state()")
_WATCH_DISK = "select skipmq.watch_disk()"
_INTERVAL = 1.0
# Asks in a turn of its own: the node is not ill because a queue is busy.
_HEALTH = "health"
# A node serves on for this many seconds while nothing can be written, or as long as requests wait
# for that: a failover must not empty the balancer, which would refuse what the node lets wait.
READY_GRACE = 5.0


class Monitor:
    """Follows the state of a database, logs and shows its changes; for one loop."""

    def __init__(self, database: Database, observer: Observer, failover_wait: float) -> None:
        self._database = database
        self._failover_wait = failover_wait
        self._failing_since: float | None = None
        self._observer = observer
        self._checked = -_INTERVAL
        self._watching: asyncio.Task[None] | None = None
        self.state = WRITABLE
        # When it became so, as a time of time.monotonic, and why, as the server or libpq says it.
        self.since, self.reason = monotonic(), ""
        database.when_hindered(self._hinder)
        self._show()

    async def check(self) -> str:
        """Return the state, as it was a second ago at most."""
        availability = self._database.availability
        if availability.failure is not None:
            self._lose(availability.failure)
        elif monotonic() - self._checked >= _INTERVAL:
            await self._ask()
        return self.state

    async def can_serve(self) -> tuple[bool, str]:
        """Return whether requests get what they ask for, or wait for it, and the state."""
        state = await self.check()
        if state == WRITABLE:
            self._failing_since = None
            return True, state
        now = monotonic()
        self._failing_since = self._failing_since or now
        waits = self._failover_wait if state in PASSING else 0.0
        return now - self._failing_since <= max(READY_GRACE, waits), state

    async def run(self) -> None:
        """Follow the state until it is cancelled."""
        try:
            while True:
                await self.check()
                await asyncio.sleep(_INTERVAL)
        finally:
            if self._watching is not None:
                self._watching.cancel()

    def refusal(self) -> errors.ServiceUnavailable:
        """Return the error of a request that cannot be served in this state."""
        kinds: dict[str, type[errors.ServiceUnavailable]] = {
            NO_CONNECTION: errors.NoConnectionSlot,
            READ_ONLY: errors.DatabaseReadOnly,
            DISK_FULL: errors.DiskFull,
            NO_PRIVILEGE: errors.InsufficientPrivilege,
        }
        return kinds.get(self.state, errors.ServiceUnavailable)()

    async def _ask(self) -> None:
        try:
            ((state,),) = await self._database.rows(_STATE, tenant=_HEALTH)
        except errors.InsufficientPrivilege:
            return  # It has been noted.
        except errors.ServiceUnavailable:
            failure = self._database.availability.failure
            if failure is not None:
                self._lose(failure)
            return  # Otherwise all connections are busy, or one was lost just now.
        self._checked = monotonic()
        if state == WRITABLE and self._watching is not None and not self._watching.done():
            state = DISK_FULL  # The session that says so is on its way.
        if state == READ_ONLY:
            # Nobody need try to write first: requests wait from now on.
            self._database.availability.lose(
                psycopg.errors.ReadOnlySqlTransaction("the server is read-only")
            )
        self._become(state)

    def _lose(self, failure: Exception) -> None:
        if has_no_slot(failure):
            self._become(NO_CONNECTION, failure)
        else:
            self._become(READ_ONLY if is_read_only(failure) else UNREACHABLE, failure)

    def _hinder(self, error: errors.Hindered) -> None:
        if isinstance(error, errors.InsufficientPrivilege):
            self._become(NO_PRIVILEGE, error.reason)
        else:
            self._become(DISK_FULL, error.reason)
            if self._watching is None or self._watching.done():
                self._watching = asyncio.get_running_loop().create_task(self._watch_disk())

    async def _watch_disk(self) -> None:
        """Keep a session that tells all nodes of the full disk until there is room."""
        try:
            session = await self._database.session()
        except psycopg.Error:
            return  # It is unreachable now, and whoever meets a full disk next watches it.
        try:
            while True:
                try:
                    await session.execute(_WATCH_DISK)
                except psycopg.errors.DiskFull:
                    await asyncio.sleep(_INTERVAL)
                else:
                    return
        except psycopg.Error as error:
            log.info("lost the session that watches the disk", error=" ".join(str(error).split()))
        finally:
            await session.close()

    def _become(self, state: str, reason: object = None) -> None:
        if state == self.state:
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
        self._observer.show("database available", float(self.state == WRITABLE))
        for state in STATES:
            self._observer.show("database state", float(state == self.state), (state,))
