"""Axes: the positions of values, and their ticks."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache

from skipmq.analytics.page.numbers import duration, tick

# The layout of a panel in units of the drawing, which are pixels at its full width.
WIDTH, HEIGHT = 350, 132
LEFT, RIGHT, TOP, BOTTOM = 54, 8, 9, 20
FLOOR = HEIGHT - BOTTOM
ROOM = FLOOR - TOP
_MAXIMUM_TICKS = 4
# Distances between ticks on axes of seconds and of time.
_SECONDS = (
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200),
    *(86_400, 172_800, 432_000, 864_000, 1_728_000, 4_320_000, 8_640_000),
)
_DAY = 86_400
# Ticks of a logarithmic axis in seconds, by priority.
_DURATIONS = (
    (0.001, 0.1, 1, 60, 3_600, 86_400),
    (0.01, 10, 600, 21_600, 864_000),
    (0.003, 0.03, 0.3, 3, 30, 180, 1_800, 10_800, 43_200, 259_200),
)
_HALF_LABEL_WIDTH = 15
_TICK_DISTANCE = 16
# The constants of the script in the page.
LAYOUT = {
    "FLOOR": FLOOR,
    "ROOM": ROOM,
    "LEFT": LEFT,
    "RIGHT": WIDTH - RIGHT,
    "TICK_DISTANCE": _TICK_DISTANCE,
}

Ticks = Sequence[tuple[float, str]]


@dataclass(frozen=True, slots=True)
class Scale:
    """An axis from its floor upwards.

    `measure` maps a value to the range from `low` to `high`, in which the ticks are, so that the
    script in the page can rescale a panel to another axis.
    """

    measure: Callable[[float], float]
    low: float
    high: float
    ticks: Ticks

    def down(self, value: float) -> float:
        """Return the y of a value."""
        return self.level(min(max(self.measure(value), self.low), self.high))

    def level(self, at: float) -> float:
        """Return the y of a result of `measure`."""
        return FLOOR - ROOM * (at - self.low) / (self.high - self.low)


def _linear(maximum: float, step: float, text: Callable[[float], str]) -> Scale:
    number = max(math.ceil(maximum / step - 1e-9), 1)
    ticks = [(n * step, text(n * step)) for n in range(number + 1)]
    return Scale(float, 0, number * step, ticks)


def counts(maximum: float) -> Scale:
    """Return an axis of numbers from 0 to at least `maximum`."""
    return _linear(maximum, max(_round_step(maximum), 1), tick)


def seconds(maximum: float) -> Scale:
    """Return an axis of seconds from 0 to at least `maximum`."""
    if maximum <= _SECONDS[0]:
        return _linear(maximum, _round_step(max(maximum, 0.001)), duration)
    step = next((s for s in _SECONDS if maximum / s <= _MAXIMUM_TICKS), _SECONDS[-1])
    return _linear(maximum, step, duration)


def _round_step(maximum: float) -> float:
    """Return 1, 2 or 5 times a power of ten, such that four steps reach `maximum`."""
    minimum = max(maximum, 1e-9) / _MAXIMUM_TICKS
    power = 10.0 ** math.floor(math.log10(minimum))
    return next(power * n for n in (1, 2, 5, 10) if power * n >= minimum * (1 - 1e-9))


def durations(low: float, high: float) -> Scale:
    """Return a logarithmic axis of seconds from `low` to `high`."""
    bottom, top = math.log10(low), math.log10(high)
    chosen: list[float] = []
    distance = _TICK_DISTANCE * (top - bottom) / ROOM
    for value in (value for values in _DURATIONS for value in values if low <= value <= high):
        if all(abs(math.log10(value / other)) >= distance for other in chosen):
            chosen.append(value)
    ticks = [(math.log10(value), duration(value)) for value in sorted(chosen)]
    return Scale(lambda value: math.log10(max(value, low)), bottom, top, ticks)


# Shares from 0.001 % to 100 %.
SHARES = Scale(
    lambda share: math.log10(max(share, 1e-5)),
    -5,
    0,
    [(-4, "0.01 %"), (-3, "0.1 %"), (-2, "1 %"), (-1, "10 %"), (0, "100 %")],
)


@dataclass(frozen=True, slots=True)
class Times:
    """A time axis in UTC."""

    since: datetime
    until: datetime

    def across(self, moment: datetime) -> float:
        """Return the x of a time, limited to the axis."""
        share = (moment - self.since) / (self.until - self.since)
        return LEFT + (WIDTH - LEFT - RIGHT) * min(max(share, 0), 1)

    def ticks(self) -> Ticks:
        """Return the x positions and labels of round times; labels do not exceed the edge."""
        length = (self.until - self.since).total_seconds()
        step = next((s for s in _SECONDS if length / s <= _MAXIMUM_TICKS + 1), _SECONDS[-1])
        first = -(-self.since.timestamp() // step) * step
        form = "%H:%M" if step % 60 == 0 else "%H:%M:%S"
        ticks = []
        for n in range(int(length // step) + 1):
            at = datetime.fromtimestamp(first + n * step, UTC)
            x = self.across(at)
            if at <= self.until and x <= WIDTH - _HALF_LABEL_WIDTH:
                midnight = at.timestamp() % _DAY == 0
                ticks.append((x, f"{at.day} {at:%b}" if midnight else at.strftime(form)))
        return ticks


@cache
def moment(at: datetime) -> str:
    """Format a time as `20 Nov 09:30`, with seconds unless they are 0."""
    return f"{at.day} {at:%b} " + at.strftime("%H:%M:%S" if at.second else "%H:%M")


@cache
def spelled(since: datetime, length: timedelta) -> str:
    """Format a step as `20 Nov 09:30, for 30 min`."""
    return f"{moment(since)}, for {duration(length.total_seconds())}"
