"""What happens while the database cannot be worked with: requests wait, one thread looks for it.

Those who wait hold a thread each and no connection. They go on together as soon as a look succeeds.
"""

import threading
from collections.abc import Callable
from time import monotonic
from typing import Protocol

import psycopg
import structlog

log = structlog.get_logger()

# Seconds between two looks.
INTERVAL = 0.25


class Observer(Protocol):
    """Who counts what happens; `count` adds to a number that only grows, `show` sets another."""

    def count(self, event: str) -> None:
        """Add one to the number of an event."""

    def show(self, state: str, value: float) -> None:
        """Set the value of a state."""


class Unobserved:
    """An observer that does not care."""

    def count(self, event: str) -> None:
        """Do nothing."""

    def show(self, state: str, value: float) -> None:
        """Do nothing."""


class Outage:
    """Whether something is there, and who waits until it is; safe for threads.

    `probe` looks, in a thread of its own, and raises psycopg.Error while it is not. `what` names it
    in log lines and metrics.
    """

    def __init__(self, what: str, probe: Callable[[], None], observer: Observer) -> None:
        self._what = what
        self._lost, self._found = f"{what} away", f"{what} back"
        self._probe = probe
        self._observer = observer
        self._over = threading.Event()
        self._over.set()
        self._lock = threading.Lock()
        self._ended = -INTERVAL
        # How often it began.
        self.number = 0
        self._waiting = 0
        self._stopped = False
        observer.show(f"{what} available", 1)

    @property
    def is_on(self) -> bool:
        """Tell whether there is one now."""
        return not self._over.is_set()

    def begin(self, error: Exception) -> None:
        """Note that it could not be worked with, and begin to look for it."""
        with self._lock:
            if self.is_on or self._stopped:
                return
            self._over.clear()
            self.number += 1
        threading.Thread(
            target=self._until_there, args=(error,), name=f"{self._what} outage", daemon=True
        ).start()

    def wait(self, deadline: float) -> bool:
        """Wait until it is there; tell whether it is, by a reading of time.monotonic."""
        if self._over.is_set():
            return not self._stopped
        remaining = deadline - monotonic()
        if remaining <= 0:
            return False
        self._observer.count("parked")
        self._park(1)
        try:
            return self._over.wait(remaining) and not self._stopped
        finally:
            self._park(-1)

    def outlast(self) -> None:
        """Wait until it is there, as long as that takes."""
        self._over.wait()

    def stop(self) -> None:
        """Let nobody wait any more, now and in future."""
        self._stopped = True
        self._over.set()

    def _park(self, change: int) -> None:
        with self._lock:
            self._waiting += change
            self._observer.show(f"waiting for {self._what}", self._waiting)

    def _until_there(self, error: Exception) -> None:
        try:
            self._look(error)
        except Exception:
            log.exception("cannot look whether it is there", what=self._what)
        self._ended = monotonic()
        self._over.set()

    def _look(self, error: Exception) -> None:
        began, seen = monotonic(), False
        pause = threading.Event()
        # What has just come back and is lost again is not asked at once.
        pause.wait(max(0.0, self._ended + INTERVAL - began))
        while not self._stopped:
            try:
                self._probe()
                break
            except psycopg.Error as found:
                if not seen:  # Once an outage: a line for each request would bury it.
                    seen = True
                    self._observer.count(f"{self._what} outages")
                    self._observer.show(f"{self._what} available", 0)
                    log.warning(self._lost, error=_line(error), probe=_line(found))
                pause.wait(INTERVAL)
        if seen:
            self._observer.show(f"{self._what} available", 1)
            seconds, waiting = round(monotonic() - began, 1), self._waiting
            log.warning(self._found, seconds=seconds, parked=waiting)
        else:
            log.info("lost a connection", error=_line(error))


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
