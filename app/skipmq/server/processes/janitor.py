"""The janitor: database maintenance such as partitions, retention and cleanup after queues.

Each node runs one. Jobs are idempotent and lock a row while they run, so only one node runs a job
at a time, without leader election. The gauges are read by every node.

Each partition behind a router has a janitor of its own, so that none waits for another one.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from math import nan
from time import monotonic

from skipmq.broker import deliveries, schedules, upkeep
from skipmq.broker.upkeep import MOVE_DELAY, MOVES, UNLIMITED, jobs
from skipmq.config.settings import Settings
from skipmq.database.partitions import Database
from skipmq.database.pool import Pool
from skipmq.database.retry import DatabaseError
from skipmq.database.wakeup import Wakeup, every, listen
from skipmq.protocol import errors
from skipmq.server.processes.deliveries import Deliveries
from skipmq.telemetry.logs import log
from skipmq.telemetry.metrics import GAUGES, Observer

# The SQL functions that start and cancel message move tasks notify it.
TASKS_CHANNEL = "skipmq_tasks"
# The task that sends what schedules have due.
SCHEDULES = "run schedules"
# Minimum age in seconds of a transaction whose session is named in a gauge.
NAMED_AFTER = 60.0
# Seconds between two looks for partitions that were added.
_GROWTH_INTERVAL = 60.0
# What begins with the node: nothing can be settled without a partition, and clients wait for tasks
# and schedules. The rest begins after its interval, and no more than some seconds: its first run in
# a new session takes as much of the server's processors as the start of a node.
_AWAITED = frozenset({MOVES.name, SCHEDULES})
_URGENT = _AWAITED | {"create partitions"}
_POSTPONED = 2.0


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


class Janitors:
    """The janitor of a database, or of each partition, and then one for the gauges of all.

    For one event loop.
    """

    def __init__(self, database: Database, settings: Settings, observer: Observer) -> None:
        self._database, self._settings, self._observer = database, settings, observer
        self._janitors: list[Janitor] = []
        self._deliveries: list[Deliveries] = []

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(listen_for_tasks(self._database, self._wake))
            group.create_task(self._listen_for_deliveries())
            async for pool in self._database.partitions():
                is_alone = pool is self._database.pool
                janitor = Janitor(pool, self._settings, self._observer, shows=is_alone)
                if not is_alone and not self._janitors:
                    shows = Janitor(
                        self._database.pool, self._settings, self._observer, works=False
                    )
                    group.create_task(shows.run())
                    look = every(
                        *(_GROWTH_INTERVAL, self._database.look_for_partitions),
                        "cannot look for partitions",
                    )
                    group.create_task(look)
                self._janitors.append(janitor)
                group.create_task(janitor.run())
                delivers = Deliveries(pool, self._settings, self._observer)
                self._deliveries.append(delivers)
                group.create_task(delivers.run())

    async def _listen_for_deliveries(self) -> None:
        def wake(_: str | None) -> None:
            for each in self._deliveries:
                each.wake()

        name = "skipmq delivery listener"
        await listen(self._database.partitions(), deliveries.CHANNEL, wake, name)

    def _wake(self) -> None:
        for janitor in self._janitors:
            janitor.wake()


async def listen_for_tasks(database: Database, wake: Callable[[], None]) -> None:
    """Call `wake` when a message move task is started or cancelled on any node, until cancelled.

    While a connection is interrupted, tasks wait for the janitor's next round.
    """
    await listen(database.partitions(), TASKS_CHANNEL, lambda _: wake(), "skipmq task listener")


class Janitor:
    """Runs the tasks when they are due; for one event loop.

    It does the jobs if it `works`, and reads the gauges if it `shows`.
    """

    def __init__(  # noqa: PLR0913 - all but the first two have defaults.
        self,
        database: Pool,
        settings: Settings,
        observer: Observer | None = None,
        named_after: float = NAMED_AFTER,
        *,
        works: bool = True,
        shows: bool = True,
    ) -> None:
        self._database = database
        self._named_after = named_after
        self._observer = observer or Observer()
        self._tasks_changed = Wakeup()
        self._shown: set[str] = set()
        self._remedies: set[str | None] = set()
        self._tasks = (self._jobs(settings) if works else []) + (
            self._gauges(settings) if shows else []
        )

    async def run(self) -> None:
        """Run until cancelled, first what is urgent."""
        pause = 0.0
        self.postpone()
        while True:
            if await self._tasks_changed.sleep(pause):
                for task in self._tasks:
                    if task.name in _AWAITED:
                        task.due = 0.0
            pause = await self.tick()

    def postpone(self) -> None:
        """Have what is not urgent begin after the node."""
        for task in self._tasks:
            if task.name not in _URGENT:
                task.due = monotonic() + min(task.interval, _POSTPONED)

    def wake(self) -> None:
        """Run the message move tasks when one that was started or cancelled may begin or end."""
        asyncio.get_running_loop().call_later(MOVE_DELAY, self._tasks_changed.wake)

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

    async def end_long_snapshots(self, limit: float) -> int:
        """End readers of old snapshots; log each remedy once where the right to is missing."""
        try:
            ended = await upkeep.end_long_snapshots(self._database, limit)
        except errors.InsufficientPrivilege as error:
            if error.remedy not in self._remedies:
                self._remedies.add(error.remedy)
                log.warning(
                    "readers may hold up the database", reason=error.reason, remedy=error.remedy
                )
            return 0
        for _ in range(ended):
            self._observer.count("snapshots ended")
        return ended

    def _jobs(self, settings: Settings) -> list[Task]:
        found = [
            Task(job.name, job.interval, partial(upkeep.run, self._database, job), job.limit)
            for job in jobs(settings)
        ]
        found.append(self._schedules())
        if limit := settings.snapshot_limit:
            end = partial(self.end_long_snapshots, limit)
            found.append(Task("end long snapshots", 5.0, end))
        return found

    def _schedules(self) -> Task:
        """Return the task that runs what is due, and then again when the next one is."""

        async def run() -> int:
            done, task.interval = await schedules.run_due(self._database)
            return done

        task = Task(SCHEDULES, schedules.LONGEST_WAIT, run)
        return task

    def _gauges(self, settings: Settings) -> list[Task]:
        found = [
            self._gauge("oldest snapshot", 5.0, self._oldest_snapshot),
            self._gauge("clock skew", 15.0, partial(upkeep.clock_skew, self._database)),
            Task("show database", 15.0, self._show_database),
        ]
        if settings.archive:
            count = partial(
                upkeep.count_unarchived_days, self._database, settings.history_retention
            )
            found.append(self._gauge("unarchived days", 60.0, count))
        return found

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
        seconds, session = await upkeep.oldest_snapshot(self._database)
        # Each session is a series of its own, so skip those that end soon.
        if seconds >= self._named_after:
            self._observer.show("snapshot holder", seconds, (session,))
        return seconds

    async def _show_database(self) -> int:
        try:
            # The schema of a newer release may return unknown statistics.
            found = [
                each
                for each in await upkeep.database_statistics(self._database)
                if each[0] in GAUGES
            ]
            free = await upkeep.free_bytes(self._database)
            found += [("free bytes", "", free)] if free is not None else []
        except (errors.SqsError, DatabaseError) as error:
            if not isinstance(error, errors.SqsError):
                log.exception("cannot read the statistics of the database")
            found = []
        for state in self._shown | {name for name, _, _ in found}:
            self._observer.forget(state)
        self._shown = {name for name, _, _ in found}
        for name, label, value in found:
            self._observer.show(name, value, (label,) if label else ())
        return 0
