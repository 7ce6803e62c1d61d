"""The janitor: database maintenance such as partitions, retention and cleanup after queues.

Each node runs one. Jobs are idempotent and lock a row while they run, so only one node runs a job
at a time, without leader election. The gauges are read by every node.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from math import nan
from time import monotonic

import structlog

from skipmq import errors
from skipmq.database import NoObserver, Observer
from skipmq.settings import Settings
from skipmq.store import Upkeep
from skipmq.telemetry.metrics import GAUGES

log = structlog.get_logger()

CHUNK = 5_000
# Each emptied FIFO group holds a lock until the transaction ends: stay below the server's limit.
EXPIRY_CHUNK = 1_000
# Small, so that a move task stops soon after it was cancelled.
MOVE_CHUNK = 1_000
DAYS_AHEAD = 7
# For jobs that process everything in one run.
UNLIMITED = 2**31
# Minimum age in seconds of a transaction whose session is named in a gauge.
NAMED_AFTER = 60.0


@dataclass(slots=True)
class Job:
    """A maintenance job; `run` returns the number of rows or objects that it processed.

    It runs every `interval` seconds, and again immediately after a full `chunk`.
    """

    name: str
    interval: float
    run: Callable[[], Awaitable[int]]
    chunk: int = CHUNK
    due: float = 0.0


class Janitor:
    """Runs the jobs when they are due; for one event loop."""

    def __init__(
        self,
        upkeep: Upkeep,
        settings: Settings,
        observer: Observer | None = None,
        named_after: float = NAMED_AFTER,
    ) -> None:
        self._named_after = named_after
        self._observer = observer or NoObserver()
        self._tasks_changed = asyncio.Event()
        self._shown: set[str] = set()
        retention = settings.history_retention
        self._moves = Job(
            "move messages", 1.0, lambda: upkeep.advance_move_tasks(MOVE_CHUNK), MOVE_CHUNK
        )
        self._jobs = [
            # First, because the other jobs insert into partitions.
            Job("create partitions", 3600.0, lambda: upkeep.create_history_partitions(DAYS_AHEAD)),
            self._moves,
            Job("fold counts", 1.0, upkeep.fold_counts, UNLIMITED),
            Job("fold all counts", 60.0, lambda: upkeep.fold_counts(everything=True), UNLIMITED),
            Job("mark noisy tenants", 1.0, lambda: upkeep.mark_noisy(CHUNK)),
            Job("clear retired", 1.0, lambda: upkeep.clear_retired(CHUNK)),
            Job("expire messages", 5.0, lambda: upkeep.expire_messages(EXPIRY_CHUNK), EXPIRY_CHUNK),
            Job("forget sends", 5.0, lambda: upkeep.expire_deduplication(CHUNK)),
            Job("forget sessions", 3600.0, lambda: upkeep.expire_ended_sessions(CHUNK)),
            Job(
                "drop partitions",
                settings.cleanup_interval,
                lambda: upkeep.drop_history_partitions(retention, archived=bool(settings.archive)),
            ),
            self._gauge("oldest snapshot", 5.0, lambda: self._oldest_snapshot(upkeep)),
            Job("show database", 15.0, lambda: self._show_database(upkeep)),
        ]
        if days := settings.audit_days:
            self._jobs.append(
                Job(
                    "expire audit records",
                    settings.cleanup_interval,
                    lambda: upkeep.expire_audit_records(days, CHUNK),
                )
            )
        if limit := settings.snapshot_limit:
            self._jobs.append(
                Job(
                    "end long snapshots",
                    5.0,
                    lambda: self._end_long_snapshots(upkeep, limit),
                    UNLIMITED,
                )
            )
        if settings.archive:
            self._jobs.append(
                self._gauge(
                    "unarchived days", 60.0, lambda: upkeep.count_unarchived_days(retention)
                )
            )
        else:
            self._observer.show("unarchived days", 0)

    async def run(self) -> None:
        """Run until cancelled."""
        pause = 0.0
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._tasks_changed.wait()
            if self._tasks_changed.is_set():
                self._tasks_changed.clear()
                self._moves.due = 0.0
            pause = await self.tick()

    def wake(self) -> None:
        """Run the message move tasks immediately, because one was started or cancelled."""
        self._tasks_changed.set()

    async def tick(self) -> float:
        """Run the jobs that are due; return the seconds until the next one is."""
        for job in self._jobs:
            if job.due > monotonic():
                continue
            try:
                done = await job.run()
            except (errors.ServiceUnavailable, errors.Locked):
                done = 0
            except Exception:
                log.exception("maintenance job failed", job=job.name)
                done = 0
            if done:
                log.debug("ran maintenance job", job=job.name, done=done)
                self._observer.count("upkeep", (job.name,), done)
            job.due = monotonic() + (0 if done >= job.chunk else job.interval)
        return max(0.0, min(job.due for job in self._jobs) - monotonic())

    def _gauge(self, state: str, interval: float, read: Callable[[], Awaitable[float]]) -> Job:
        """Return the job that updates a gauge; its value is NaN until it has been read."""

        async def show() -> int:
            value = nan
            try:
                value = await read()
            finally:
                self._observer.show(state, value)
            return 0

        self._observer.show(state, nan)
        return Job(f"show {state}", interval, show)

    async def _oldest_snapshot(self, upkeep: Upkeep) -> float:
        self._observer.forget("snapshot holder")
        seconds, session = await upkeep.oldest_snapshot()
        # Each session is a series of its own, so skip those that end soon.
        named = (seconds, session) if seconds >= self._named_after else (0.0, "")
        self._observer.show("snapshot holder", named[0], (named[1],))
        return seconds

    async def _show_database(self, upkeep: Upkeep) -> int:
        try:
            # The schema of a newer release may return unknown statistics.
            found = [each for each in await upkeep.database_statistics() if each[0] in GAUGES]
        except errors.SqsError:
            found = []
        for state in self._shown | {name for name, _, _ in found}:
            self._observer.forget(state)
        self._shown = {name for name, _, _ in found}
        for name, label, value in found:
            self._observer.show(name, value, (label,) if label else ())
        return 0

    async def _end_long_snapshots(self, upkeep: Upkeep, limit: float) -> int:
        ended = await upkeep.end_long_snapshots(limit)
        for _ in range(ended):
            self._observer.count("snapshots ended")
        return ended
