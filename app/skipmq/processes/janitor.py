"""The janitor: database maintenance such as partitions, retention and cleanup after queues.

Each node runs one. Jobs are idempotent and lock a row while they run, so only one node runs a job
at a time, without leader election. The gauges are read by every node.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from math import nan
from time import monotonic

from skipmq import errors
from skipmq.config.settings import Settings
from skipmq.database import NoObserver, Observer
from skipmq.database.wakeup import Wakeup
from skipmq.store import Upkeep
from skipmq.store.upkeep import MOVES, UNLIMITED, jobs
from skipmq.telemetry.logs import log
from skipmq.telemetry.metrics import GAUGES

# Minimum age in seconds of a transaction whose session is named in a gauge.
NAMED_AFTER = 60.0


@dataclass(slots=True)
class Task:
    """A maintenance task; `run` returns the number of rows or objects that it processed.

    It runs every `interval` seconds, and again immediately where it reached its limit.
    """

    name: str
    interval: float
    run: Callable[[], Awaitable[int]]
    limit: int = UNLIMITED
    due: float = 0.0


class Janitor:
    """Runs the tasks when they are due; for one event loop."""

    def __init__(
        self,
        upkeep: Upkeep,
        settings: Settings,
        observer: Observer | None = None,
        named_after: float = NAMED_AFTER,
    ) -> None:
        self._upkeep = upkeep
        self._named_after = named_after
        self._observer = observer or NoObserver()
        self._tasks_changed = Wakeup()
        self._shown: set[str] = set()
        self._tasks = [
            Task(job.name, job.interval, partial(upkeep.run, job), job.limit)
            for job in jobs(settings)
        ]
        self._moves = next(task for task in self._tasks if task.name == MOVES.name)
        self._tasks += [
            self._gauge("oldest snapshot", 5.0, self._oldest_snapshot),
            Task("show database", 15.0, self._show_database),
        ]
        if limit := settings.snapshot_limit:
            end = partial(self._end_long_snapshots, limit)
            self._tasks.append(Task("end long snapshots", 5.0, end))
        if settings.archive:
            count = partial(upkeep.count_unarchived_days, settings.history_retention)
            self._tasks.append(self._gauge("unarchived days", 60.0, count))
        else:
            self._observer.show("unarchived days", 0)

    async def run(self) -> None:
        """Run until cancelled."""
        pause = 0.0
        while True:
            if await self._tasks_changed.sleep(pause):
                self._moves.due = 0.0
            pause = await self.tick()

    def wake(self) -> None:
        """Run the message move tasks immediately, because one was started or cancelled."""
        self._tasks_changed.wake()

    async def tick(self) -> float:
        """Run the tasks that are due; return the seconds until the next one is."""
        for task in self._tasks:
            if task.due > monotonic():
                continue
            try:
                done = await task.run()
            except (errors.ServiceUnavailable, errors.Locked):
                done = 0
            except Exception:
                log.exception("maintenance job failed", job=task.name)
                done = 0
            if done:
                log.debug("ran maintenance job", job=task.name, done=done)
                self._observer.count("upkeep", (task.name,), done)
            task.due = monotonic() + (0 if done >= task.limit else task.interval)
        return max(0.0, min(task.due for task in self._tasks) - monotonic())

    def _gauge(self, state: str, interval: float, read: Callable[[], Awaitable[float]]) -> Task:
        """Return the task that updates a gauge; its value is NaN until it has been read."""

        async def show() -> int:
            value = nan
            try:
                value = await read()
            finally:
                self._observer.show(state, value)
            return 0

        self._observer.show(state, nan)
        return Task(f"show {state}", interval, show)

    async def _oldest_snapshot(self) -> float:
        self._observer.forget("snapshot holder")
        seconds, session = await self._upkeep.oldest_snapshot()
        # Each session is a series of its own, so skip those that end soon.
        named = (seconds, session) if seconds >= self._named_after else (0.0, "")
        self._observer.show("snapshot holder", named[0], (named[1],))
        return seconds

    async def _show_database(self) -> int:
        try:
            # The schema of a newer release may return unknown statistics.
            found = [each for each in await self._upkeep.database_statistics() if each[0] in GAUGES]
        except errors.SqsError:
            found = []
        for state in self._shown | {name for name, _, _ in found}:
            self._observer.forget(state)
        self._shown = {name for name, _, _ in found}
        for name, label, value in found:
            self._observer.show(name, value, (label,) if label else ())
        return 0

    async def _end_long_snapshots(self, limit: float) -> int:
        ended = await self._upkeep.end_long_snapshots(limit)
        for _ in range(ended):
            self._observer.count("snapshots ended")
        return ended
