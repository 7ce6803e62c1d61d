"""What a worker takes on at once: requests in all, and receivers that wait for messages.

Receivers that wait have a lower bound of their own, so that however many they are, requests that do
not wait are answered; and what is beyond a bound is told so at once, instead of hanging unheard.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

import structlog

from skipmq import errors

log = structlog.get_logger()

# The part of the threads that waiting receivers never get, and the fewest that this is.
KEPT, LEAST_KEPT = 8, 4
# Refusing is over when nobody has been refused for so many seconds.
QUIET = 5.0


class Admission:
    """Counts requests in and out; safe for threads.

    The numbers may be read at any time; `refused` only ever grows.
    """

    def __init__(
        self, threads: int, quiet: float = QUIET, note: Callable[[str], None] = lambda _: None
    ) -> None:
        self.most = threads
        self.most_waiting = threads - max(threads // KEPT, LEAST_KEPT)
        self.active = self.waiting = self.refused = 0
        self._lock = threading.Lock()
        self._quiet = quiet
        self._note = note
        self._refused_last: float | None = None
        self._refused_before = 0

    @contextmanager
    def admitted(self) -> Iterator[None]:
        """Count a request in for as long as the block runs.

        Raises errors.Overloaded when there are too many.
        """
        with self._lock:
            if self.active + self.waiting >= self.most:
                self._refuse()
                raise errors.Overloaded
            self.active += 1
            self._look_whether_refusing_is_over()
        try:
            yield
        finally:
            with self._lock:
                self.active -= 1

    @contextmanager
    def parked(self) -> Iterator[bool]:
        """Count an admitted request among those that wait for as long as the block runs.

        Tells whether there was room; if not, it must not wait.
        """
        with self._lock:
            has_room = self.waiting < self.most_waiting
            self.waiting += has_room
            self.active -= has_room
        try:
            yield has_room
        finally:
            with self._lock:
                self.waiting -= has_room
                self.active += has_room

    def turn_away(self) -> errors.Overloaded:
        """Return the error for a receiver that found neither a message nor room to wait."""
        with self._lock:
            self._refuse()
        return errors.Overloaded("As many receivers wait on the node as it can take; try again.")

    def _refuse(self) -> None:
        # Once each time: a line for each request would bury it.
        if self._refused_last is None:
            self._refused_before = self.refused
            log.warning("refusing requests", active=self.active, waiting=self.waiting)
        self.refused += 1
        self._note("refused")
        self._refused_last = monotonic()

    def _look_whether_refusing_is_over(self) -> None:
        if self._refused_last is not None and monotonic() - self._refused_last > self._quiet:
            self._refused_last = None
            log.warning("no longer refusing requests", refused=self.refused - self._refused_before)
