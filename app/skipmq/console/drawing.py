"""Charts as SVG: where lines, ticks and labels go. The templates write them down."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from skipmq.console import formats

WIDTH, HEIGHT = 600, 180
LEFT, RIGHT, TOP, BOTTOM = 56, 8, 10, 24
_TICKS = 4
# Minutes between two labels of an axis of time.
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120)
_MARKS = 6
_MICROSECONDS = ((60_000_000, "min"), (1_000_000, "s"), (1_000, "ms"), (1, "µs"))

Values = Sequence[int | None]


@dataclass(slots=True)
class Chart:
    """What the template draws: positions in units of the drawing, texts as people read them."""

    title: str
    # The peak, so that whoever hears the chart knows its size.
    peak: str
    # A line's name, its colour and its points, which are in several parts where values are missing.
    lines: list[tuple[str, str, list[str]]]
    # Of each axis: the place and the text.
    ticks: list[tuple[float, str]]
    marks: list[tuple[float, str]]
    # A column for each time: where it begins, its width, its time, and each line's value.
    columns: list[tuple[float, float, str, list[str]]]
    summary: dict[str, str] = field(default_factory=dict)


def span(value: int) -> str:
    """Return microseconds in the unit that suits them."""
    if not value:
        return "0"
    size, unit = next((each for each in _MICROSECONDS if value >= each[0]), (1, "µs"))
    return f"{value / size:.3g} {unit}" if value < size * 1_000 else f"{value // size:,} {unit}"


@dataclass(frozen=True, slots=True)
class Unit:
    """How values are written, on the axis and by themselves, and the least top of the axis."""

    tick: Callable[[int], str]
    whole: Callable[[int], str]
    least: int
    # Into what a tick is rounded.
    sizes: tuple[int, ...] = (1,)


COUNT = Unit(formats.count, formats.exact, 4)
TIME = Unit(span, span, 4, (60_000_000, 1_000_000, 1_000, 1))


def chart(  # noqa: PLR0913 - a chart has as many parts.
    title: str,
    times: Sequence[int],
    step: int,
    colours: Mapping[str, str],
    values: Mapping[str, Values],
    *,
    unit: Unit,
) -> Chart:
    """Return the chart of some lines: `times` are the beginnings of steps of so many seconds."""
    peak = max((each for line in values.values() for each in line if each is not None), default=0)
    tick = _tick(max(peak, unit.least), unit)
    top = tick * -(-max(peak, unit.least) // tick)
    first, width = times[0], (WIDTH - LEFT - RIGHT) / len(times)
    floor = HEIGHT - BOTTOM

    def down(value: int) -> float:
        return round(floor - (floor - TOP) * value / top, 1)

    columns = [
        (
            round(LEFT + place * width, 1),
            round(width, 2),
            _clock(time),
            [_written(line[place], unit) for line in values.values()],
        )
        for place, time in enumerate(times)
    ]
    minutes = len(times) * step // 60
    every = 60 * next(each for each in _STEPS if minutes / each <= _MARKS)
    marks = [
        (round(LEFT + (time - first) / step * width + width / 2, 1), _clock(time))
        for time in range(-(-first // every) * every, times[-1] + 1, every)
    ]
    return Chart(
        title,
        unit.whole(peak),
        [
            (name, colours[name], _parts(line, lambda place: LEFT + (place + 0.5) * width, down))
            for name, line in values.items()
        ],
        [(down(value), unit.tick(value)) for value in range(0, top + 1, tick)],
        marks,
        columns,
    )


def _parts(line: Values, across: Callable[[int], float], down: Callable[[int], float]) -> list[str]:
    """Return the points of a line, in parts where values are missing."""
    parts: list[list[str]] = [[]]
    for place, value in enumerate(line):
        if value is None:
            parts.append([])
        else:
            parts[-1].append(f"{across(place):.1f},{down(value)}")
    return [" ".join(part) for part in parts if part]


def _tick(most: int, unit: Unit) -> int:
    """Return the distance of ticks: one, two or five times a power of ten of a unit."""
    size = next(each for each in unit.sizes if most >= each)
    power = 1
    while True:
        for factor in (1, 2, 5):
            if factor * power * size * _TICKS >= most:
                return factor * power * size
        power *= 10


def _written(value: int | None, unit: Unit) -> str:
    return "none" if value is None else unit.whole(value)


def _clock(time: int) -> str:
    return f"{datetime.fromtimestamp(time, UTC):%H:%M}"
