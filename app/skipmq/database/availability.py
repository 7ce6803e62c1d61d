"""What happens while the database cannot be worked with: requests wait, one task looks for it.

Those who wait hold a future each and no connection. They go on together once a probe succeeds.
"""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Protocol

import psycopg
import structlog

log = structlog.get_logger()

# Seconds between two probes.
INTERVAL = 0.25


class Observer(Protocol):
    """Counts what happens, each under the values of its labels."""

    def count(self, event: str, labels: tuple[str, ...] = (), by: float = 1.0) -> None:
        """Add to the number of an event."""

    def show(self, state: str, value: float, labels: tuple[str, ...] = ()) -> None:
        """Set the value of a state."""

    def forget(self, state: str) -> None:
        """Forget all values of a state."""

    def observe(
        self, event: str, value: float, labels: tuple[str, ...] = (), request_id: str = ""
    ) -> None:
        """Add a value to a distribution."""


class NoObserver:
    """A no-op observer."""

    def count(self, event: str, labels: tuple[str, ...] = (), by: float = 1.0) -> None:
        """Do nothing."""

    def show(self, state: str, value: float, labels: tuple[str, ...] = ()) -> None:
        """Do nothing."""

    def forget(self, state: str) -> None:
        """Do nothing."""

    def observe(
        self, event: str, value: float, labels: tuple[str, ...] = (), request_id: str = ""
    ) -> None:
        """Do nothing."""


class Availability:
    """Whether something is available, and who waits until it is; for one loop.

    `probe` raises psycopg.Error while it is not; any other error is no answer either, and is logged
    with its traceback. `what` names it in log lines and metrics. When `quiet` no loss is logged
    that the first probe refutes.
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
        self._lost, self._found = f"{what} away", f"{what} back"
        self._probe = probe
        self._observer = observer
        self._waiting: set[asyncio.Future[None]] = set()
        self._ended = -INTERVAL
        self._probing: asyncio.Task[None] | None = None
        self._stopped = False
        # What the last probe said, from the first that failed until one gets through.
        self.failure: Exception | None = None
        # How often it became unavailable.
        self.losses = 0
        # How often a probe found it so; the last such time began and ended at these times of
        # time.monotonic; since when it has been available.
        self.outages = 0
        self.last_outage: tuple[float, float] | None = None
        self.since = monotonic()
        observer.show(f"{what} available", 1)

    @property
    def is_lost(self) -> bool:
        """Tell whether it is unavailable now."""
        return self._probing is not None

    def lose(self, error: Exception) -> None:
        """Note that it could not be worked with, and begin to probe it."""
        if self.is_lost or self._stopped:
            return
        self.losses += 1
        self._probing = asyncio.get_running_loop().create_task(self._until_found(error))

    async def wait(self, deadline: float) -> bool:
        """Wait until it is available; tell whether it is, by a reading of time.monotonic."""
        if self._probing is None:
            return not self._stopped
        if deadline <= monotonic():
            return False
        self._observer.count("parked")
        # It may be lost again before the one that waits goes on.
        while self.is_lost and not self._stopped and (remaining := deadline - monotonic()) > 0:
            await self._park(remaining)
        return not (self.is_lost or self._stopped)

    async def outlast(self) -> None:
        """Wait until it is available, as long as that takes."""
        while self.is_lost and not self._stopped:
            await self._park(None)

    def stop(self) -> None:
        """Let nobody wait any longer, now and in future."""
        self._stopped = True
        if self._probing is not None:
            self._probing.cancel()
            self._probing = None
        self._release()

    async def _park(self, seconds: float | None) -> None:
        found = asyncio.get_running_loop().create_future()
        self._waiting.add(found)
        self._show_waiting()
        try:
            async with asyncio.timeout(seconds):
                await found
        except TimeoutError:
            pass
        finally:
            self._waiting.discard(found)
            self._show_waiting()

    def _release(self) -> None:
        for found in self._waiting:
            if not found.done():
                found.set_result(None)

    def _show_waiting(self) -> None:
        self._observer.show(f"waiting for {self._what}", len(self._waiting))

    async def _until_found(self, error: Exception) -> None:
        await self._search(error)
        self._ended = monotonic()
        self._probing = self.failure = None
        self._release()

    async def _search(self, error: Exception) -> None:
        began, seen = monotonic(), False
        # What has just come back and is lost again is not probed at once.
        await asyncio.sleep(max(0.0, self._ended + INTERVAL - began))
        while True:
            try:
                await self._probe()
                break
            except Exception as found:
                if not isinstance(found, (psycopg.Error, OSError, type(self.failure))):
                    log.exception("cannot probe", what=self._what)
                self.failure = found
                if not seen:  # Once a loss: a line for each request would bury it.
                    seen = True
                    self.outages += 1
                    self._observer.count(f"{self._what} outages")
                    self._observer.show(f"{self._what} available", 0)
                    log.warning(self._lost, error=_line(error), probe=_line(found))
                await asyncio.sleep(INTERVAL)
        if seen:
            self.since = monotonic()
            self.last_outage = (began, self.since)
            self._observer.show(f"{self._what} available", 1)
            seconds, waiting = round(monotonic() - began, 1), len(self._waiting)
            log.warning(self._found, seconds=seconds, parked=waiting)
        else:
            self._log_refuted("the first probe succeeded", what=self._what, error=_line(error))


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
