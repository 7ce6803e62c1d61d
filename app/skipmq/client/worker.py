"""A worker: one event loop that runs the consumers of an app."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from time import monotonic
from typing import Any

from skipmq.client.claiming import Runner
from skipmq.client.consumer import Consumer
from skipmq.client.database import Database
from skipmq.client.health import start_health
from skipmq.client.queue import Scheduled
from skipmq.client.sending import is_url
from skipmq.client.service import Service
from skipmq.client.source import Source

log = logging.getLogger(__package__)

_CHECK_SECONDS = 0.01
_CLAIM_SECONDS = 2.0
_SUMMARY_SECONDS = 60.0


class UnfinishedError(Exception):
    """Handlers that still ran when the time to end was over."""


class Worker:
    """Runs consumers until it is stopped, or until their queues are empty."""

    def __init__(
        self,
        consumers: Sequence[Consumer],
        dsn: str,
        schedules: Sequence[Scheduled] = (),
        *,
        concurrency: int | None,
        grace: float,
    ) -> None:
        self._schedules = schedules
        self._source: Source = Service(dsn) if is_url(dsn) else Database(dsn)
        self._grace, self._stopped = grace, asyncio.Event()
        if concurrency is not None:
            consumers = [
                replace(c, options=replace(c.options, concurrency=concurrency)) for c in consumers
            ]
        self.runners = [Runner(c, self._source) for c in consumers]

    async def run(self, *, once: bool, health_host: str, health_port: int | None) -> None:
        """Run; raise ClientError where it cannot begin, and UnfinishedError for what it cut off."""
        background_tasks: list[asyncio.Task[Any]] = []
        health = None
        try:
            await self._source.open()
            for each in self._schedules:
                await self._source.declare(each)
            if health_port is not None:
                health = await start_health(health_host, health_port, self.runners, self._source)
            background_tasks = [asyncio.create_task(runner.extend()) for runner in self.runners]
            background_tasks.append(asyncio.create_task(self._sum_up()))
            if once:
                tasks = [asyncio.create_task(self._drain())]
            else:
                background_tasks.append(asyncio.create_task(self._source.listen(self.runners)))
                tasks = [asyncio.create_task(runner.serve()) for runner in self.runners]
            background_tasks.append(stopped := asyncio.create_task(self._stopped.wait()))
            try:
                await asyncio.wait([stopped, *tasks], return_when=asyncio.FIRST_COMPLETED)
            finally:
                self.stop()
                late = await self._finish(tasks)
            for task in tasks:
                if task.done() and not task.cancelled():
                    task.result()
        finally:
            for task in background_tasks:
                task.cancel()
            await asyncio.gather(*background_tasks, return_exceptions=True)
            if health is not None:
                health.close()
            await self._source.close()
        if late:
            raise UnfinishedError(
                f"{late} handlers did not end within {self._grace:g} seconds; their messages are"
                " visible again, at the latest after their visibility timeout"
            )

    def stop(self) -> None:
        """Claim no more and end what runs."""
        self._stopped.set()
        for runner in self.runners:
            runner.stop()

    def interrupt(self) -> None:
        """Stop; when it is called again, without grace."""
        if self._stopped.is_set():
            self._grace = 0
        self.stop()

    async def _sum_up(self) -> None:
        """Log each minute what became of messages in it."""
        before = [runner.outcomes.copy() for runner in self.runners]
        while True:
            await asyncio.sleep(_SUMMARY_SECONDS)
            for place, runner in enumerate(self.runners):
                if found := runner.outcomes - before[place]:
                    counts = ", ".join(f"{count} {name}" for name, count in sorted(found.items()))
                    log.info("%s in the last minute: %s", runner.queue.name, counts)
                before[place] = runner.outcomes.copy()

    async def _drain(self) -> None:
        while sum(await asyncio.gather(*(runner.drain() for runner in self.runners))):
            pass  # What one consumer sent may be for another.

    async def _finish(self, tasks: Sequence[asyncio.Task[None]]) -> int:
        """Let handlers end until the grace is over; return the number that was cut off."""
        # A claim that was on its way returns what it has, unless the database is unavailable.
        _, stuck = await asyncio.wait(tasks, timeout=_CLAIM_SECONDS)
        for task in stuck:
            task.cancel()
        began = monotonic()
        while any(runner.is_busy for runner in self.runners):
            if monotonic() - began >= self._grace:
                break
            await asyncio.sleep(_CHECK_SECONDS)
        return sum(await asyncio.gather(*(runner.cut_off() for runner in self.runners)))
