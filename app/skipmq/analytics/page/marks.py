"""Charts as SVG text: the frame of a panel and what is drawn in it. Colours are the page's."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from itertools import pairwise

from markupsafe import Markup, escape

from skipmq.analytics.page.scales import FLOOR, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Scale, Ticks, Times

# Of a step, what its bar takes.
_FULL = 0.84
Point = tuple[float, float | None]


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")


def line(points: Iterable[Point], colour: str, style: str = "") -> str:
    """Draw a line through points, in parts where a y is None; a point by itself is a dot."""
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
    """Fill what is between a line and the floor."""
    if not points:
        return ""
    (first, _), (last, _) = points[0], points[-1]
    along = _path([(first, FLOOR), *points, (last, FLOOR)])
    return f'<path class="area {colour}" d="{along}z"/>'


def _path(points: Sequence[tuple[float, float]]) -> str:
    """Return a path, each point by its distance from the one before: short, and packs well."""
    there = [(round(x), round(y)) for x, y in points]
    moves = [f"{x - x0} {y - y0}" for (x0, y0), (x, y) in pairwise(there)]
    return f"M{there[0][0]} {there[0][1]}l{' '.join(moves) or '0 0'}"


def bars(boxes: Iterable[tuple[float, float, float]], colour: str, width: float) -> str:
    """Draw bars of one colour: of each the middle, the top and the bottom."""
    there = ((x, round(top), round(bottom)) for x, top, bottom in boxes)
    drawn = "".join(f"M{_n(x)} {bottom}V{top}" for x, top, bottom in there if top < bottom)
    wide = _n(width * _FULL)
    return f'<path class="bars {colour}" stroke-width="{wide}" d="{drawn}"/>' if drawn else ""


def steps(texts: Iterable[tuple[float, str]], width: float) -> str:
    """Draw what says the numbers of each step, over its whole height: its middle and the text."""
    drawn = "".join(
        f'<path d="M{_n(x)} {TOP}V{FLOOR}"><title>{escape(text)}</title></path>'
        for x, text in texts
    )
    return f'<g class="steps" stroke-width="{_n(width)}">{drawn}</g>'


def width_of(times: Times, step: timedelta) -> float:
    """Return how wide a step is on an axis of time."""
    return (WIDTH - LEFT - RIGHT) * (step / (times.until - times.since))


def panel(
    heading: tuple[str, str], scale: Scale, ticks: Ticks, drawn: Sequence[str], said: str
) -> Markup:
    """Return a panel: its queue and a note, its axes, what is drawn, and what `steps` gave."""
    queue, note = heading
    levels = [(at, scale.level(at), text) for at, text in scale.ticks]
    rules = "".join(f"M{LEFT} {_n(y)}H{WIDTH - RIGHT}" for _, y, _ in levels)
    beside = "".join(
        f'<text x="{LEFT - 6}" y="{_n(y + 4)}" data-at="{at:.6g}">{escape(text)}</text>'
        for at, y, text in levels
    )
    below = "".join(
        f'<text x="{_n(x)}" y="{HEIGHT - 4}">{escape(text)}</text>' for x, text in ticks
    )
    label = escape(f"{queue}, {note}: the arrow keys go through its values")
    return Markup(  # noqa: S704 - all that comes from outside is escaped above.
        f'<figure class="panel"><figcaption><b>{escape(queue)}</b> <span>{escape(note)}</span>'
        f'</figcaption><svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" tabindex="0"'
        f' aria-label="{label}" data-low="{scale.low:.6g}" data-high="{scale.high:.6g}">'
        f'<g class="y"><path d="{rules}"/>{beside}</g><g class="x">{below}</g>'
        f'<g class="marks">{"".join(drawn)}</g>{said}</svg></figure>'
    )
