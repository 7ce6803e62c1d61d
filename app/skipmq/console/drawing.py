"""The layout of charts: positions of lines, ticks and labels, which templates render as SVG.

Positions across are percentages of the plot, which is as wide as there is room, and positions down
are pixels, so that texts have one size at each width; points are in units of WIDTH.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from skipmq.console import formats

WIDTH, HEIGHT = 1_000, 180
TOP, BOTTOM = 10, 24
_TICKS = 4
_DAY = 1_440
# Minutes between two labels of a time axis, and the maximum number of labels.
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 240, 720, _DAY)
_MARKS = 7
_MICROSECONDS = ((60_000_000, "min"), (1_000_000, "s"), (1_000, "ms"), (1, "µs"))

Values = Sequence[int | None]
Event = dict[str, Any]


@dataclass(slots=True)
class Chart:
    """A chart for the template; positions are in units of the drawing."""

    title: str
    # Part of the label for screen readers.
    peak: str
    # Name, colour and points of each line, in several parts if values are missing.
    lines: list[tuple[str, str, list[str]]]
    # Colour and points of the part of each line that leads to the present, incomplete step.
    unfinished: list[tuple[str, str]]
    # Position and label on the y axis; position and time in seconds on the x axis.
    ticks: list[tuple[float, str]]
    marks: list[tuple[float, int]]
    # Time and the values of all lines.
    columns: list[tuple[int, list[str]]]
    # Whether times are days.
    has_days: bool
    summary: dict[str, str] = field(default_factory=dict)
    # Its anchor in the page, if other pages lead to it.
    key: str = ""


def span(value: int) -> str:
    """Format microseconds in a suitable unit."""
    if not value:
        return "0"
    size, unit = next((each for each in _MICROSECONDS if value >= each[0]), (1, "µs"))
    return f"{value / size:.3g} {unit}" if value < size * 1_000 else f"{value // size:,} {unit}"


@dataclass(frozen=True, slots=True)
class Unit:
    """The formats of ticks and values, and the minimum of an axis's upper end."""

    tick: Callable[[int], str]
    value: Callable[[int], str]
    minimum: int
    # Ticks are round multiples of one of these.
    sizes: tuple[int, ...] = (1,)


COUNT = Unit(formats.count, formats.exact, 4)
TIME = Unit(span, span, 4, (60_000_000, 1_000_000, 1_000, 1))


def chart(
    title: str,
    times: range,
    colours: Mapping[str, str],
    values: Mapping[str, Values],
    unit: Unit = COUNT,
) -> Chart:
    """Return a chart; `times` are the beginnings of steps in seconds."""
    peak = max((each for line in values.values() for each in line if each is not None), default=0)
    tick = _tick(max(peak, unit.minimum), unit)
    top = tick * -(-max(peak, unit.minimum) // tick)
    first, width = times[0], WIDTH / len(times)
    floor = HEIGHT - BOTTOM

    def down(value: int) -> float:
        return round(floor - (floor - TOP) * value / top, 1)

    columns = [
        (time, [_formatted(line[index], unit) for line in values.values()])
        for index, time in enumerate(times)
    ]
    minutes = len(times) * times.step // 60
    every = 60 * next(each for each in _STEPS if minutes / each <= _MARKS)
    marks = [
        (round(100 * ((time - first) / times.step + 0.5) / len(times), 2), time)
        for time in range(-(-first // every) * every, times[-1] + 1, every)
    ]

    across = [f"{(index + 0.5) * width:.1f}" for index in range(len(times))]
    return Chart(
        title,
        unit.value(peak),
        [(name, colours[name], _parts(line[:-1], across, down)) for name, line in values.items()],
        [
            (colours[name], " ".join(parts))
            for name, line in values.items()
            if line[-1] is not None and (parts := _parts(line[-2:], across[-2:], down))
        ],
        [(down(value), unit.tick(value)) for value in range(0, top + 1, tick)],
        marks,
        columns,
        every >= 60 * _DAY,
    )


def position(time: float, times: range) -> float | None:
    """Return the position of a time on the x axis, or None outside of it."""
    share = (time - times[0]) / (len(times) * times.step)
    return round(100 * share, 2) if 0 <= share <= 1 else None


def placed(events: Iterable[Mapping[str, Any]], times: range) -> list[Event]:
    """Return the events of a period in their order, with their positions: `time` to `until`."""
    shown = []
    for event in sorted(events, key=lambda event: event["time"]):
        began, end = event["time"], event.get("until")
        if end is not None and end >= times[0]:
            began = max(began, times[0])
        across = position(began, times)
        if across is None:
            continue
        last = None if end is None else position(min(end, times[-1] + times.step), times)
        width = None if last is None else round(max(last - across, 0.5), 2)
        shown.append({**event, "across": across, "width": width})
    return shown


def _parts(line: Values, across: Sequence[str], down: Callable[[int], float]) -> list[str]:
    """Return the points of a line, divided at missing values."""
    parts: list[list[str]] = [[]]
    for place, value in zip(across, line, strict=False):
        if value is None:
            parts.append([])
        else:
            parts[-1].append(f"{place},{down(value)}")
    return [" ".join(part) for part in parts if part]


def _tick(maximum: int, unit: Unit) -> int:
    """Return the distance between ticks: 1, 2 or 5 times a power of ten of a size."""
    size = next(each for each in unit.sizes if maximum >= each)
    power = 1
    while True:
        for factor in (1, 2, 5):
            if factor * power * size * _TICKS >= maximum:
                return factor * power * size
        power *= 10


def _formatted(value: int | None, unit: Unit) -> str:
    return "none" if value is None else unit.value(value)
