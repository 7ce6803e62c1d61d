"""SVG of panels and marks; the style sheet of the page has the colours."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from itertools import pairwise

from markupsafe import Markup, escape

from skipmq.analytics.page.scales import FLOOR, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Scale, Ticks, Times

# The width of a bar relative to its step.
_BAR_WIDTH = 0.84
Point = tuple[float, float | None]


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")


def line(points: Iterable[Point], colour: str, style: str = "") -> str:
    """Draw a line through points, with a gap at each None; a single point is a dot."""
    parts: list[list[tuple[float, float]]] = [[]]
    for x, y in points:
        if y is None:
            parts.append([])
        else:
            parts[-1].append((x, y))
    lines = "".join(_path(part) for part in parts if len(part) > 1)
    dots = "".join(_path(part) for part in parts if len(part) == 1)
    return "".join(
        f'<path class="line {colour}{kind}" d="{drawn}"/>'
        for kind, drawn in ((style, lines), (" dot", dots))
        if drawn
    )


def area(points: Sequence[tuple[float, float]], colour: str) -> str:
    """Fill the area between a line and the axis."""
    if not points:
        return ""
    (first, _), (last, _) = points[0], points[-1]
    outline = _path([(first, FLOOR), *points, (last, FLOOR)])
    return f'<path class="area {colour}" d="{outline}z"/>'


def _path(points: Sequence[tuple[float, float]]) -> str:
    """Return a path with relative coordinates, which are short and compress well."""
    rounded = [(round(x), round(y)) for x, y in points]
    moves = [f"{x - x0} {y - y0}" for (x0, y0), (x, y) in pairwise(rounded)]
    return f"M{rounded[0][0]} {rounded[0][1]}l{' '.join(moves) or '0 0'}"


def bars(boxes: Iterable[tuple[float, float, float]], colour: str, width: float) -> str:
    """Draw bars of a colour, given as (middle x, top y, bottom y)."""
    rounded = ((x, round(top), round(bottom)) for x, top, bottom in boxes)
    drawn = "".join(f"M{_n(x)} {bottom}V{top}" for x, top, bottom in rounded if top < bottom)
    stroke = _n(width * _BAR_WIDTH)
    return f'<path class="bars {colour}" stroke-width="{stroke}" d="{drawn}"/>' if drawn else ""


def steps(texts: Iterable[tuple[float, str]], width: float) -> str:
    """Draw the invisible hover targets of steps, given as (middle x, tooltip)."""
    drawn = "".join(
        f'<path d="M{_n(x)} {TOP}V{FLOOR}"><title>{escape(text)}</title></path>'
        for x, text in texts
    )
    return f'<g class="steps" stroke-width="{_n(width)}">{drawn}</g>'


def width_of(times: Times, step: timedelta) -> float:
    """Return the width of a step on a time axis."""
    return (WIDTH - LEFT - RIGHT) * (step / (times.until - times.since))


def panel(
    heading: tuple[str, str], scale: Scale, ticks: Ticks, drawn: Sequence[str], hover: str
) -> Markup:
    """Return a panel of a queue and a note, with axes, marks, and the result of `steps`."""
    queue, note = heading
    levels = [(at, scale.level(at), text) for at, text in scale.ticks]
    rules = "".join(f"M{LEFT} {_n(y)}H{WIDTH - RIGHT}" for _, y, _ in levels)
    y_labels = "".join(
        f'<text x="{LEFT - 6}" y="{_n(y + 4)}" data-at="{at:.6g}">{escape(text)}</text>'
        for at, y, text in levels
    )
    x_labels = "".join(
        f'<text x="{_n(x)}" y="{HEIGHT - 4}">{escape(text)}</text>' for x, text in ticks
    )
    label = escape(f"{queue}, {note}: use the arrow keys to step through the values")
    return Markup(  # noqa: S704 - all input is escaped above.
        f'<figure class="panel"><figcaption><b>{escape(queue)}</b> <span>{escape(note)}</span>'
        f'</figcaption><svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" tabindex="0"'
        f' aria-label="{label}" data-low="{scale.low:.6g}" data-high="{scale.high:.6g}">'
        f'<g class="y"><path d="{rules}"/>{y_labels}</g><g class="x">{x_labels}</g>'
        f'<g class="marks">{"".join(drawn)}</g>{hover}</svg></figure>'
    )
