"""Availability of the database: while it is unavailable requests wait and one task probes it.

A waiting request holds a future and no connection. All resume once a probe succeeds.
"""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic

import psycopg

from skipmq.telemetry.logs import log
from skipmq.telemetry.metrics import Observer

# Seconds between two probes.
INTERVAL = 0.25


class Availability:
    """The availability of a resource, and the tasks that wait for it; for one loop.

    `probe` raises psycopg.Error while the resource is unavailable; any other error counts as
    unavailable too, and is logged with its traceback. `what` names the resource in log lines and
    metrics. With `quiet` an interruption that the first probe refutes is logged at debug level.
    """

    def __init__(
        self,
        what: str,
        probe: Callable[[], Awaitable[None]],
        observer: Observer,
        *,
        quiet: bool = False,
    ) -> None:
        self._log_refuted = log.debug if quiet else log.info
        self._what = what
        self._became_unavailable = f"{what} unavailable"
        self._became_available = f"{what} available again"
        self._probe = probe
        self._observer = observer
        self._waiting: set[asyncio.Future[None]] = set()
        self._probed_at = -INTERVAL
        self._probing: asyncio.Task[None] | None = None
        self._stopped = False
        # The error of the last probe; None until a probe fails and after one succeeds.
        self.failure: Exception | None = None
        # Calls of mark_unavailable that started probes, confirmed or not.
        self.interruptions = 0
        # Interruptions that a probe confirmed, and start and end of the last one; these and the
        # start of the present state, `since`, are times of time.monotonic.
        self.outages = 0
        self.last_outage: tuple[float, float] | None = None
        self.since = monotonic()
        observer.show(f"{what} available", 1)

    @property
    def is_unavailable(self) -> bool:
        """Return whether the resource is unavailable, or suspected to be."""
        return self._probing is not None

    def mark_unavailable(self, error: Exception) -> None:
        """Mark the resource as unavailable because of an error, and start to probe it."""
        if self.is_unavailable or self._stopped:
            return
        self.interruptions += 1
        self._probing = asyncio.get_running_loop().create_task(self._probe_until_available(error))

    async def wait(self, deadline: float) -> bool:
        """Wait until the resource is available or a time of time.monotonic is reached.

        Return whether the resource is available.
        """
        if self._probing is None:
            return not self._stopped
        if deadline <= monotonic():
            return False
        self._observer.count("parked")
        # It may become unavailable again before this task resumes.
        while self.is_unavailable and not self._stopped and (left := deadline - monotonic()) > 0:
            await self._park(left)
        return not (self.is_unavailable or self._stopped)

    async def wait_until_available(self) -> None:
        """Wait until the resource is available or probing is stopped."""
        while self.is_unavailable and not self._stopped:
            await self._park(None)

    def stop(self) -> None:
        """Stop probing; end all waits, present and future."""
        self._stopped = True
        if self._probing is not None:
            self._probing.cancel()
            self._probing = None
        self._release()

    async def _park(self, seconds: float | None) -> None:
        available = asyncio.get_running_loop().create_future()
        self._waiting.add(available)
        self._show_waiting()
        try:
            async with asyncio.timeout(seconds):
                await available
        except TimeoutError:
            pass
        finally:
            self._waiting.discard(available)
            self._show_waiting()

    def _release(self) -> None:
        for available in self._waiting:
            if not available.done():
                available.set_result(None)

    def _show_waiting(self) -> None:
        self._observer.show(f"waiting for {self._what}", len(self._waiting))

    async def _probe_until_available(self, error: Exception) -> None:
        await self._probe_repeatedly(error)
        self._probed_at = monotonic()
        self._probing = self.failure = None
        self._release()

    async def _probe_repeatedly(self, error: Exception) -> None:
        began, is_confirmed = monotonic(), False
        # Keep INTERVAL between probes also where one interruption follows another at once.
        await asyncio.sleep(max(0.0, self._probed_at + INTERVAL - began))
        while True:
            try:
                await self._probe()
                break
            except Exception as failure:
                if not isinstance(failure, (psycopg.Error, OSError, type(self.failure))):
                    log.exception("cannot probe", what=self._what)
                self.failure = failure
                if not is_confirmed:  # Log an outage once, and not for each request.
                    is_confirmed = True
                    self.outages, self.since = self.outages + 1, began
                    self._observer.count(f"{self._what} outages")
                    self._observer.show(f"{self._what} available", 0)
                    log.warning(self._became_unavailable, error=_line(error), probe=_line(failure))
                await asyncio.sleep(INTERVAL)
        if is_confirmed:
            self.since = monotonic()
            self.last_outage = (began, self.since)
            self._observer.show(f"{self._what} available", 1)
            seconds, waiting = round(monotonic() - began, 1), len(self._waiting)
            log.warning(self._became_available, seconds=seconds, waiting=waiting)
        else:
            self._log_refuted("the first probe succeeded", what=self._what, error=_line(error))


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
