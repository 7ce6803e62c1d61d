"""The receive floor: where a claim of a standard queue may begin to look.

What was consumed leaves dead entries at the head of the index, which every claim would walk past
while somebody's old snapshot keeps them. Two bounds spare it that. Below the *floor* there is proof
that nothing is or ever will be visible: all transactions that had a number when a time was read are
done, all others write later times (sql/functions/receive_floor.sql), and no message was seen lower
down. The *hint*, where the last claim ended, is only likely: a late committer or a rollback may
leave messages below it. So a claim that comes away short looks again from the floor at once, and
every SWEEP_SECONDS one begins there: a message is at most delayed by that, and only while others
keep the queue full.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import monotonic

import psycopg
import structlog

from skipmq import errors

log = structlog.get_logger()

SWEEP_SECONDS = 0.25
# Where a sweep takes long, sweeps take no more than this part of the time.
SWEEP_SHARE = 10
# Raising the floor costs a statement, and pays by the entries that are left below, of which a claim
# that takes long may have met many.
LOOK_AFTER_CLAIMED = 200
LOOK_AFTER_SECONDS = 0.1
# A look that failed is tried again after so long.
FAILED_LOOK_SECONDS = 5.0
# What is written by none of our functions, such as an UPDATE by hand, is found within this time.
FULL_LOOK_SECONDS = 60.0
FULL_LOOK_SHARE = 50
# The database's clock may be put back by less than this without being noticed.
MARGIN = timedelta(milliseconds=100)
# Floors are only hints: those of too many queues are dropped together.
MOST_FLOORS = 10_000


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where a claim begins (None: at the beginning), and when that was said by the stopwatch."""

    floor: datetime | None
    hint: datetime | None
    said_at: float


@dataclass(frozen=True, slots=True)
class Look:
    """What receive_floor said."""

    looked_at: datetime
    oldest: int
    number: int
    first_visible_at: datetime | None


class Floor:
    """What is known of one standard queue, over connections of one generation; safe for threads.

    Nothing that is visible lies before `floor`; None: that is not known yet.
    """

    def __init__(self, stopwatch: Callable[[], float] = monotonic) -> None:
        self._stopwatch = stopwatch
        self._lock = threading.Lock()
        self._generation = 0
        self._looking = False
        self._forget()

    def _forget(self) -> None:
        self._epoch = object()
        self.floor: datetime | None = None
        self._hint: datetime | None = None
        self._proved: datetime | None = None
        self._probe: tuple[int, datetime] | None = None
        self._clock: tuple[datetime, float] | None = None
        self._claimed = 0
        self._sweep_at = self._look_at = self._full_look_at = self._stopwatch()

    def raise_with(self, look: Callable[[datetime | None], Look], generation: int) -> None:
        """Ask the database by `look`, if that is due, whether the floor lies higher.

        A look that fails leaves the floor where it is: whether a receive does, its claim decides.
        """
        with self._lock:
            if generation != self._generation:
                # Another server, perhaps, with another clock.
                self._generation = generation
                self._forget()
            began = self._stopwatch()
            if self._looking or not self._is_look_due(began):
                return
            self._looking = True
            epoch, full = self._epoch, began >= self._full_look_at
            start = None if full else self.floor
        seen: Look | None = None
        try:
            seen = look(start)
        except (errors.SqsError, psycopg.Error) as error:
            log.warning("cannot look for the receive floor", error=" ".join(str(error).split()))
        finally:
            with self._lock:
                self._looking = False
                ended = self._stopwatch()
                if seen is None:
                    self._look_at = ended + FAILED_LOOK_SECONDS
        if seen is not None:
            with self._lock:
                self._note_clock(seen.looked_at, began)
                if epoch is self._epoch:
                    self._learn(seen)
                    if full:
                        pause = max(FULL_LOOK_SECONDS, FULL_LOOK_SHARE * (ended - began))
                        self._full_look_at = ended + pause

    def _is_look_due(self, now: float) -> bool:
        if now < max(self._sweep_at, self._look_at):
            return False
        if self.floor is None:
            return self._probe is not None or self._claimed >= LOOK_AFTER_CLAIMED
        return now >= self._full_look_at or self._claimed >= LOOK_AFTER_CLAIMED

    def _learn(self, seen: Look) -> None:
        self._claimed = 0
        if self._probe is not None and seen.oldest > self._probe[0]:
            self._proved, self._probe = self._probe[1], None
        if self._probe is None:
            self._probe = (seen.number, seen.looked_at)
        if self._proved is not None:
            self.floor = self._proved - MARGIN
            if seen.first_visible_at is not None:
                self.floor = min(self.floor, seen.first_visible_at)

    def bounds(self) -> Bounds:
        """Return where the next claim begins."""
        with self._lock:
            now = self._stopwatch()
            sweep = now >= self._sweep_at
            if sweep:
                self._sweep_at = now + SWEEP_SECONDS
            return Bounds(self.floor, None if sweep else self._hint, now)

    def claimed(
        self, bounds: Bounds, count: int, received_at: datetime, reached: datetime | None
    ) -> None:
        """Note what a claim with these bounds gave, when, and up to which message."""
        with self._lock:
            took = self._stopwatch() - bounds.said_at
            if bounds.hint is None:
                self._sweep_at = max(self._sweep_at, bounds.said_at + SWEEP_SHARE * took)
            self._claimed += LOOK_AFTER_CLAIMED if took > LOOK_AFTER_SECONDS else count
            if reached is not None:
                self._hint = reached
            self._note_clock(received_at, bounds.said_at)

    def _note_clock(self, told: datetime, asked_at: float) -> None:
        """Forget everything if the database's clock was put back."""
        if self._clock is not None:
            last, answered_at = self._clock
            if asked_at < answered_at:
                return  # The two ran side by side: either may be the older.
            if told < last + timedelta(seconds=asked_at - answered_at) - MARGIN:
                self._forget()
        self._clock = (told, self._stopwatch())


class Floors:
    """The floors of the queues that a process receives from; safe for threads."""

    def __init__(self, stopwatch: Callable[[], float] = monotonic) -> None:
        self._stopwatch = stopwatch
        self._floors: dict[int, Floor] = {}

    def of(self, queue_id: int) -> Floor:
        """Return the floor of a queue."""
        floor = self._floors.get(queue_id)
        if floor is None:
            if len(self._floors) >= MOST_FLOORS:
                self._floors.clear()
            floor = self._floors.setdefault(queue_id, Floor(self._stopwatch))
        return floor
