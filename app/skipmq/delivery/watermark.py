"""The low watermark: where a claim of a standard queue may begin to scan.

What was consumed leaves dead entries at the head of the index, which every claim would walk past
while somebody's old snapshot keeps them. Two bounds spare it that. Below the *low watermark* there
is proof that nothing is or ever will be visible: all transactions that had a number when a time was
read are done, all others write later times (sql/functions/low_watermark.sql), and no message was
seen lower down. The *scan start*, where the last claim ended, is only likely: a late committer or a
rollback may leave messages below it. So a claim that finds too little scans again from the
watermark at once, and every SWEEP_SECONDS one begins there: a message is at most delayed by that,
and only while others keep the queue full.

A transaction that has a number and stays open would hold the low watermark back for as long: what
it has written is visible once it ends. After HELD_AFTER it is *held*: left out of the proof, and
noted with the watermark of that time, above which all lies that it ever wrote. Each claim has the
database check whether a held one has ended, and then begins at what was noted with it.

`Watermark` is what is known, `Scan` when to ask and where to begin. Times of the database are in
microseconds since 1970, those of the stopwatch in seconds.
"""

from collections.abc import Callable
from time import monotonic
from typing import NamedTuple, TypeAlias

SWEEP_SECONDS = 0.25
# Where a sweep takes long, sweeps take no more than this part of the time.
SWEEP_SHARE = 10
# A probe costs a statement, and pays by the entries that are left below, of which a claim that
# takes long may have met many.
PROBE_AFTER_CLAIMED = 200
PROBE_AFTER_SECONDS = 0.1
# A probe that failed is repeated after so long.
FAILED_PROBE_SECONDS = 5.0
# What is written by none of our functions, such as an UPDATE by hand, is found within this time.
FULL_PROBE_SECONDS = 60.0
FULL_PROBE_SHARE = 50
# The database's clock may be put back by less than this without being noticed.
MARGIN = 100_000
# A transaction that holds the low watermark back for so long is held, of the database's clock; of
# so many at most each claim asks.
HELD_AFTER = 1_000_000
MOST_HELD = 100
# Scans are only cached: those of too many queues are dropped together.
MOST_SCANS = 10_000
_SECOND = 1_000_000


class Probe(NamedTuple):
    """What skipmq.low_watermark returns."""

    read_at: int
    running: list[int]
    xid: int
    first_visible_at: int | None
    first_received_at: int | None = None


# The numbers of held transactions, and from where on to scan after each has ended.
Held: TypeAlias = tuple[list[int] | None, list[int | None] | None]
_NONE_HELD: Held = (None, None)


class Bounds(NamedTuple):
    """Where a claim begins (None: at the beginning), and when that was said by the stopwatch."""

    low: int | None
    start: int | None
    said_at: float
    held: Held = _NONE_HELD
    # As `low`, of what was received and may be visible again.
    received_low: int | None = None


class Watermark:
    """What two probes prove; knows no clock and asks nobody."""

    def __init__(self) -> None:
        # Of what was never received, and of what was.
        self.low: int | None = None
        self.received_low: int | None = None
        self._proved: int | None = None
        self._pending: Probe | None = None
        self._held: dict[int, int | None] = {}

    @property
    def is_pending(self) -> bool:
        """Tell whether another probe may prove something."""
        return self._pending is not None

    @property
    def held(self) -> Held:
        """Return what a claim or probe from this watermark has to name."""
        return (list(self._held), list(self._held.values())) if self._held else _NONE_HELD

    def learn(self, probe: Probe) -> None:
        """Note a probe, made from the watermark as it was, or from the beginning of the queue."""
        self._held = {xid: low for xid, low in self._held.items() if xid in probe.running}
        if self._pending is not None and not self._blocking(self._pending, probe):
            self._proved, self._pending = self._pending.read_at, None
        if self._pending is None:
            self._pending = probe
        if self._proved is not None:
            proved = self._proved - MARGIN
            self.low = _least(proved, probe.first_visible_at)
            self.received_low = _least(proved, probe.first_received_at)

    @property
    def _lowest(self) -> int | None:
        if self.low is None or self.received_low is None:
            return None
        return min(self.low, self.received_low)

    def _blocking(self, earlier: Probe, probe: Probe) -> bool:
        """Tell whether one that ran at the earlier probe may still show what it wrote before it."""
        blocking = [x for x in probe.running if x <= earlier.xid and x not in self._held]
        if probe.read_at - earlier.read_at < HELD_AFTER:
            return bool(blocking)
        if len(self._held) + len(blocking) > MOST_HELD:
            return True
        self._held |= dict.fromkeys(blocking, self._lowest)
        return False


def _least(proved: int, first: int | None) -> int:
    return proved if first is None else min(proved, first)


class Scan:
    """Where the claims of one queue begin, and when to probe; for one loop.

    What is known holds for connections of one generation: another server may have another clock.
    """

    def __init__(self, stopwatch: Callable[[], float] = monotonic) -> None:
        self._stopwatch = stopwatch
        self._generation = 0
        self._is_probing = False
        self._forget()

    def _forget(self) -> None:
        self.watermark = Watermark()
        self._start: int | None = None
        self._clock: tuple[int, float] | None = None
        self._claimed = 0
        self._sweep_at = self._probe_at = self._full_probe_at = self._stopwatch()

    def begin_probe(self, generation: int) -> "PendingProbe | None":
        """Return the probe that is due, which whoever gets it makes, or None."""
        if generation != self._generation:
            self._generation = generation
            self._forget()
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
        """Note what a probe returned; None: it failed, and the claims go on as they did."""
        self._is_probing = False
        ended = self._stopwatch()
        if probe is None:
            self._probe_at = ended + FAILED_PROBE_SECONDS
            return
        self._note_clock(probe.read_at, pending.began)
        if pending.watermark is not self.watermark:
            return  # Everything was forgotten meanwhile.
        self._claimed = 0
        self.watermark.learn(probe)
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
        """Return where the next claim begins."""
        now = self._stopwatch()
        sweep = now >= self._sweep_at
        if sweep:
            self._sweep_at = now + SWEEP_SECONDS
        start = None if sweep else self._start
        mark = self.watermark
        return Bounds(mark.low, start, now, mark.held, mark.received_low)

    def claimed(self, bounds: Bounds, count: int, received_at: int, reached: int | None) -> None:
        """Note what a claim with these bounds gave, when, and up to which message."""
        took = self._stopwatch() - bounds.said_at
        if bounds.start is None:
            self._sweep_at = max(self._sweep_at, bounds.said_at + SWEEP_SHARE * took)
        self._claimed += PROBE_AFTER_CLAIMED if took > PROBE_AFTER_SECONDS else count
        if reached is not None:
            self._start = reached
        elif count:
            # All that it could take was received before: so may be what comes next.
            self._sweep_at = bounds.said_at
        self._note_clock(received_at, bounds.said_at)

    def _note_clock(self, told: int, asked_at: float) -> None:
        """Forget everything if the database's clock was put back."""
        if self._clock is not None:
            last, answered_at = self._clock
            if asked_at < answered_at:
                return  # The two ran at the same time: either may be the older.
            if told < last + int((asked_at - answered_at) * _SECOND) - MARGIN:
                self._forget()
        self._clock = (told, self._stopwatch())


class PendingProbe(NamedTuple):
    """A probe to make: from where on (None: from the beginning), and what it is for."""

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

    def of(self, queue_id: int) -> Scan:
        """Return the scan of a queue."""
        scan = self._scans.get(queue_id)
        if scan is None:
            if len(self._scans) >= MOST_SCANS:
                self._scans.clear()
            scan = self._scans[queue_id] = Scan(self._stopwatch)
        return scan
