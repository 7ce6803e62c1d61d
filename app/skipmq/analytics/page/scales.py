"""Axes: where a value stands, and which values are written beside it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache

from skipmq.analytics.page.numbers import duration, tick

# Where marks are drawn, in units of the drawing: a pixel, where a panel has its full width.
WIDTH, HEIGHT = 350, 132
LEFT, RIGHT, TOP, BOTTOM = 54, 8, 9, 20
FLOOR = HEIGHT - BOTTOM
ROOM = FLOOR - TOP
_MOST_TICKS = 4
# Distances of ticks on an axis of seconds, and of one of time, that people can add up.
_SECONDS = (
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200),
    *(86_400, 172_800, 432_000, 864_000, 1_728_000, 4_320_000, 8_640_000),
)
_DAY = 86_400
# Values that stand on a logarithmic axis, in seconds; the later ones give way where it is short.
_DURATIONS = (
    (0.001, 0.1, 1, 60, 3_600, 86_400),
    (0.01, 10, 600, 21_600, 864_000),
    (0.003, 0.03, 0.3, 3, 30, 180, 1_800, 10_800, 43_200, 259_200),
)
_HALF_A_LABEL = 15
_APART = 16
# What the script in the page wants to know of these.
PLACES = {"FLOOR": FLOOR, "ROOM": ROOM, "LEFT": LEFT, "RIGHT": WIDTH - RIGHT, "APART": _APART}

Ticks = Sequence[tuple[float, str]]


@dataclass(frozen=True, slots=True)
class Scale:
    """An axis from its floor upwards.

    `measure` gives where a value is between `low` and `high`, as the ticks have it: so that what
    is drawn on one axis can be moved to another.
    """

    measure: Callable[[float], float]
    low: float
    high: float
    ticks: Ticks

    def down(self, value: float) -> float:
        """Return the y of a value."""
        return self.level(min(max(self.measure(value), self.low), self.high))

    def level(self, at: float) -> float:
        """Return the y of what `measure` gives."""
        return FLOOR - ROOM * (at - self.low) / (self.high - self.low)


def _linear(most: float, step: float, text: Callable[[float], str]) -> Scale:
    number = max(math.ceil(most / step - 1e-9), 1)
    ticks = [(n * step, text(n * step)) for n in range(number + 1)]
    return Scale(float, 0, number * step, ticks)


def counts(most: float) -> Scale:
    """Return an axis of numbers from zero to at least this one."""
    return _linear(most, max(_round_step(most), 1), tick)


def seconds(most: float) -> Scale:
    """Return an axis of seconds from zero to at least so many."""
    if most <= _SECONDS[0]:
        return _linear(most, _round_step(max(most, 0.001)), duration)
    step = next((s for s in _SECONDS if most / s <= _MOST_TICKS), _SECONDS[-1])
    return _linear(most, step, duration)


def _round_step(most: float) -> float:
    """Return one, two or five times a power of ten, such that four of it reach `most`."""
    least = max(most, 1e-9) / _MOST_TICKS
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * n for n in (1, 2, 5, 10) if power * n >= least * (1 - 1e-9))


def durations(low: float, high: float) -> Scale:
    """Return a logarithmic axis of seconds from one to the other."""
    bottom, top = math.log10(low), math.log10(high)
    chosen: list[float] = []
    apart = _APART * (top - bottom) / ROOM
    for value in (value for values in _DURATIONS for value in values if low <= value <= high):
        if all(abs(math.log10(value / other)) >= apart for other in chosen):
            chosen.append(value)
    ticks = [(math.log10(value), duration(value)) for value in sorted(chosen)]
    return Scale(lambda value: math.log10(max(value, low)), bottom, top, ticks)


# Of shares, from a thousandth of a per cent to all.
SHARES = Scale(
    lambda share: math.log10(max(share, 1e-5)),
    -5,
    0,
    [(-4, "0.01 %"), (-3, "0.1 %"), (-2, "1 %"), (-1, "10 %"), (0, "100 %")],
)


@dataclass(frozen=True, slots=True)
class Times:
    """An axis of time, in UTC."""

    since: datetime
    until: datetime

    def across(self, moment: datetime) -> float:
        """Return the x of a moment; of one beyond the axis that of its end."""
        share = (moment - self.since) / (self.until - self.since)
        return LEFT + (WIDTH - LEFT - RIGHT) * min(max(share, 0), 1)

    def ticks(self) -> Ticks:
        """Return the x of round times and their texts, none of which the edge cuts off."""
        length = (self.until - self.since).total_seconds()
        step = next((s for s in _SECONDS if length / s <= _MOST_TICKS + 1), _SECONDS[-1])
        first = -(-self.since.timestamp() // step) * step
        form = "%H:%M" if step % 60 == 0 else "%H:%M:%S"
        found = []
        for n in range(int(length // step) + 1):
            at = datetime.fromtimestamp(first + n * step, UTC)
            x = self.across(at)
            if at <= self.until and x <= WIDTH - _HALF_A_LABEL:
                midnight = at.timestamp() % _DAY == 0
                found.append((x, f"{at.day} {at:%b}" if midnight else at.strftime(form)))
        return found


@cache
def moment(at: datetime) -> str:
    """Return a moment as `20 Nov 09:30`, with seconds where it has any."""
    return f"{at.day} {at:%b} " + at.strftime("%H:%M:%S" if at.second else "%H:%M")


@cache
def spelled(since: datetime, length: timedelta) -> str:
    """Return a step as `20 Nov 09:30, for 30 min`."""
    return f"{moment(since)}, for {duration(length.total_seconds())}"
