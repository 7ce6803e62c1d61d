"""The low watermark and the scan start: where claims of a standard queue start to scan the index.

Deleted messages leave dead entries at the head of the index, which every claim would scan while an
old snapshot keeps them. Two bounds avoid that. Below the *low watermark* no message is or ever will
be visible: all transactions that had an id when a time was read have ended, all others write later
times (sql/functions/node/low_watermark.sql), and no message was found below it. The *scan start*,
where
the last claim ended, is not proved: a late commit or a rollback may leave messages below it. So a
claim that finds too few messages scans again from the watermark, and every SWEEP_SECONDS a claim
starts there. A message is delayed by that time at most, and only while others keep the queue full.

A transaction with an id that stays open would keep the low watermark from advancing. After
HELD_AFTER it is *held*: excluded from the proof, and stored with the watermark of that time, above
which all its writes are. With each claim the database checks whether a held transaction has ended,
in which case the claim starts at the watermark stored with it.

`Watermark` keeps the proof, `Scan` decides when to probe and where claims start. Times of the
database are in microseconds since 1970, those of the stopwatch in seconds.
"""

from collections.abc import Callable
from time import monotonic
from typing import NamedTuple, TypeAlias

SWEEP_SECONDS = 0.25
# Slow sweeps take at most 1/SWEEP_SHARE of the time.
SWEEP_SHARE = 10
# A probe is worth its statement after this number of claimed messages, each of which leaves dead
# entries, or after a claim that took this long.
PROBE_AFTER_CLAIMED = 200
PROBE_AFTER_SECONDS = 0.1
# Seconds until a failed probe is repeated.
FAILED_PROBE_SECONDS = 5.0
# Writes without our functions, such as a manual UPDATE, are found within this time; slow full
# probes take at most 1/FULL_PROBE_SHARE of it.
FULL_PROBE_SECONDS = 60.0
FULL_PROBE_SHARE = 50
# For this time claims pass over the messages that a damaged page keeps from being read: then they
# try again, since it may be repaired.
DAMAGE_SECONDS = 60.0
# Steps of the database's clock backwards by less than this are not detected.
MARGIN = 100_000
# The time after which an open transaction is held, and the number of held transactions.
HELD_AFTER = 1_000_000
MAX_HELD = 100
# Cached scans; beyond that number all are dropped.
MAX_SCANS = 10_000
_SECOND = 1_000_000


class Probe(NamedTuple):
    """A row of skipmq.low_watermark."""

    read_at: int
    running: list[int]
    xid: int
    first_visible_at: int | None
    first_received_at: int | None = None


# The ids of held transactions, and the watermark stored with each.
Held: TypeAlias = tuple[list[int] | None, list[int | None] | None]
_NONE_HELD: Held = (None, None)


class Bounds(NamedTuple):
    """Where a claim starts (None: at the head), and the stopwatch's time when it was decided."""

    low: int | None
    start: int | None
    taken_at: float
    held: Held = _NONE_HELD
    # The low watermark of messages that were received and may be visible again.
    received_low: int | None = None

    @property
    def quick(self) -> int | None:
        """Return where a claim starts that may leave messages below; None for the next sweep."""
        return None if self.start is None else _later(self.low, self.start)


class Watermark:
    """The low watermark that pairs of probes prove; without I/O and clock."""

    def __init__(self) -> None:
        # Of messages never received, and of those received before.
        self.low: int | None = None
        self.received_low: int | None = None
        self._proved: int | None = None
        self._pending: Probe | None = None
        self._held: dict[int, int | None] = {}

    @property
    def is_pending(self) -> bool:
        """Return whether another probe may raise the watermark."""
        return self._pending is not None

    @property
    def held(self) -> Held:
        """Return the held transactions, which claims and probes from this watermark pass."""
        return (list(self._held), list(self._held.values())) if self._held else _NONE_HELD

    def update(self, probe: Probe) -> None:
        """Update the watermark with a probe from it or from the head of the queue."""
        self._held = {xid: low for xid, low in self._held.items() if xid in probe.running}
        if self._pending is not None and not self._blocking(self._pending, probe):
            self._proved, self._pending = self._pending.read_at, None
        if self._pending is None:
            self._pending = probe
        if self._proved is not None:
            proved = self._proved - MARGIN
            self.low = _lower(proved, probe.first_visible_at)
            self.received_low = _lower(proved, probe.first_received_at)

    @property
    def _lowest(self) -> int | None:
        if self.low is None or self.received_low is None:
            return None
        return min(self.low, self.received_low)

    def _blocking(self, earlier: Probe, probe: Probe) -> bool:
        """Return whether a transaction of the earlier probe still runs and is not held."""
        blocking = [x for x in probe.running if x <= earlier.xid and x not in self._held]
        if probe.read_at - earlier.read_at < HELD_AFTER:
            return bool(blocking)
        if len(self._held) + len(blocking) > MAX_HELD:
            return True
        self._held |= dict.fromkeys(blocking, self._lowest)
        return False


def _lower(proved: int, first: int | None) -> int:
    return proved if first is None else min(proved, first)


def _later(first: int | None, second: int | None) -> int | None:
    return max((each for each in (first, second) if each is not None), default=None)


class Scan:
    """The watermark and the scan start of one queue, and when to probe; for one loop.

    They are reset with the connections' generation, since another server has another clock.
    """

    def __init__(self, stopwatch: Callable[[], float] = monotonic) -> None:
        self._stopwatch = stopwatch
        self._generation = 0
        self._is_probing = False
        self._reset()

    def _reset(self) -> None:
        self.watermark = Watermark()
        self._start: int | None = None
        # Whether the last claim got all that it could take.
        self.is_full = False
        self._clock: tuple[int, float] | None = None
        self._claimed = 0
        # Where the queue can be read, as `low` and `received_low` of Bounds, and until when.
        self._readable: tuple[int | None, int | None] | None = None
        self._readable_until = 0.0
        self._sweep_at = self._probe_at = self._full_probe_at = self._stopwatch()

    def begin_probe(self, generation: int) -> "PendingProbe | None":
        """Return the probe that is due, which the caller makes, or None."""
        if generation != self._generation:
            self._generation = generation
            self._reset()
        now = self._stopwatch()
        if self._is_probing or not self._is_probe_due(now):
            return None
        self._is_probing = True
        full = now >= self._full_probe_at
        if full:
            return PendingProbe(self.watermark, None, full, now, _NONE_HELD, None)
        mark = self.watermark
        return PendingProbe(mark, mark.low, full, now, mark.held, mark.received_low)

    def end_probe(self, pending: "PendingProbe", probe: Probe | None) -> None:
        """Update the watermark with a finished probe; None if it failed."""
        self._is_probing = False
        ended = self._stopwatch()
        if probe is None:
            self._probe_at = ended + FAILED_PROBE_SECONDS
            return
        self._check_clock(probe.read_at, pending.began)
        if pending.watermark is not self.watermark:
            return  # It was reset meanwhile.
        self._claimed = 0
        self.watermark.update(probe)
        if pending.is_full:
            pause = max(FULL_PROBE_SECONDS, FULL_PROBE_SHARE * (ended - pending.began))
            self._full_probe_at = ended + pause

    def _is_probe_due(self, now: float) -> bool:
        if now < max(self._sweep_at, self._probe_at):
            return False
        if self.watermark.low is None:
            return self.watermark.is_pending or self._claimed >= PROBE_AFTER_CLAIMED
        return now >= self._full_probe_at or self._claimed >= PROBE_AFTER_CLAIMED

    def bounds(self) -> Bounds:
        """Return where the next claim starts."""
        now = self._stopwatch()
        sweep = now >= self._sweep_at
        if sweep:
            self._sweep_at = now + SWEEP_SECONDS
        start = None if sweep else self._start
        mark = self.watermark
        if self._readable is not None and now < self._readable_until:
            low, received_low = self._readable
            return Bounds(
                _later(mark.low, low),
                start,
                now,
                received_low=_later(mark.received_low, received_low),
            )
        return Bounds(mark.low, start, now, mark.held, mark.received_low)

    def pass_over(self, low: int | None, received_low: int | None) -> None:
        """Have claims of the next minute begin where a damaged page ends."""
        now = self._stopwatch()
        if self._readable is None or now >= self._readable_until:
            self._readable_until = now + DAMAGE_SECONDS
        self._readable = low, received_low

    def claimed(
        self,
        bounds: Bounds,
        count: int,
        received_at: int,
        reached: int | None,
        wanted: int = 0,
    ) -> None:
        """Record a claim of `wanted` messages: messages, time, and the last message scanned."""
        self.is_full = count == wanted
        took = self._stopwatch() - bounds.taken_at
        if bounds.start is None:
            self._sweep_at = max(self._sweep_at, bounds.taken_at + SWEEP_SHARE * took)
        self._claimed += PROBE_AFTER_CLAIMED if took > PROBE_AFTER_SECONDS else count
        if reached is not None:
            self._start = reached
        elif count:
            # It took only messages received before, and the next ones may be such too.
            self._sweep_at = bounds.taken_at
        self._check_clock(received_at, bounds.taken_at)

    def _check_clock(self, read: int, asked_at: float) -> None:
        """Reset the scan if the database's clock has stepped backwards."""
        if self._clock is not None:
            last, answered_at = self._clock
            if asked_at < answered_at:
                return  # The two statements overlapped, in unknown order.
            if read < last + int((asked_at - answered_at) * _SECOND) - MARGIN:
                self._reset()
        self._clock = (read, self._stopwatch())


class PendingProbe(NamedTuple):
    """A probe to make, from `start` (None: from the head), and the watermark to update."""

    watermark: Watermark
    start: int | None
    is_full: bool
    began: float
    held: Held
    received_start: int | None


class Scans:
    """The scans of the queues that a process receives from."""

    def __init__(self, stopwatch: Callable[[], float] = monotonic) -> None:
        self._stopwatch = stopwatch
        self._scans: dict[int, Scan] = {}

    def forget(self) -> None:
        """Begin all scans again, as where messages were written without our functions."""
        self._scans.clear()

    def scan(self, queue_id: int) -> Scan:
        """Return the scan of a queue."""
        scan = self._scans.get(queue_id)
        if scan is None:
            if len(self._scans) >= MAX_SCANS:
                self._scans.clear()
            scan = self._scans[queue_id] = Scan(self._stopwatch)
        return scan
