"""The bullet chart of processing times against visibility timeouts, with a row for each queue."""

import math
from collections.abc import Sequence

from markupsafe import Markup, escape

from skipmq.analytics.page.charts import DEFAULT_QUEUES, SHORTEST, Chart, Rows
from skipmq.analytics.page.findings import Row
from skipmq.analytics.page.numbers import duration

_VALUES = ("processing_p50", "processing_p99", "visibility_timeout", "suggested_timeout")
_TICKS = (0.001, 0.01, 0.1, 1, 10, 60, 600, 3_600, 43_200)
# The number that fits on a phone.
_MAXIMUM_TICKS = 6
_HEIGHT = 22
_LEGEND = (
    ("teal", "work, p50 to p95"),
    ("teal thin", "to p99"),
    ("ink upright", "visibility timeout"),
    ("orange diamond", "recommended timeout"),
)


def visibility(rows: Rows, names: Sequence[str]) -> Chart:
    """Draw the processing times of each queue, p50 to p99, against its visibility timeout."""
    measured = {
        name: each[0] for name, each in rows.items() if each[0]["processing_p50"] is not None
    }
    values = [max(row[c], SHORTEST) for row in measured.values() for c in _VALUES if row[c]]
    low, high = min(values, default=0.1) / 2, max(values, default=60) * 2

    def share(value: float) -> float:
        return math.log(max(value, SHORTEST) / low) / math.log(high / low)

    shown = [tick for tick in _TICKS if low <= tick <= high]
    ticks = [(share(t), duration(t)) for t in shown[:: -(-len(shown) // _MAXIMUM_TICKS) or 1]]
    rules = "".join(_upright(at, "rule", 0, _HEIGHT) for at, _ in ticks)
    texts = "".join(f'<text x="{at:.1%}" y="14">{escape(text)}</text>' for at, text in ticks)
    axis = Markup(f'<div class="axis"><span></span><svg height="18">{texts}</svg></div>')  # noqa: S704 - as below.

    def one(row: Row) -> Markup:
        p50, p95, p99 = (share(row[f"processing_{q}"]) for q in ("p50", "p95", "p99"))
        timeout, suggested = row["visibility_timeout"], row["suggested_timeout"]
        drawn = _level(p50, p99, "thin") + _level(p50, p95, "thick")
        if timeout:
            drawn += _upright(share(timeout), "upright ink", 2, _HEIGHT - 2)
        if suggested and suggested != timeout:
            drawn += (
                f'<svg class="orange" x="{share(suggested):.1%}" overflow="visible">'
                '<path class="area" d="M-6 11l6-6 6 6-6 6z"/></svg>'
            )
        return Markup(  # noqa: S704 - names and texts are escaped.
            f'<div class="bullet"><span>{escape(row["name"])}</span>'
            f'<svg class="plot" height="{_HEIGHT}" role="img" tabindex="0"'
            f' aria-label="{escape(_tooltip(row))}">{rules}{drawn}<g class="steps">'
            f'<rect width="100%" height="100%"><title>{escape(_tooltip(row))}</title></rect>'
            "</g></svg></div>"
        )

    def draw(queues: Sequence[str]) -> Markup:
        return Markup("").join([*(one(measured[name]) for name in queues), axis])

    title = "Processing time and visibility timeout"
    drawn_names = [name for name in names if name in measured]
    return Chart(
        "visibility-plots", title, _LEGEND, drawn_names, draw, "bullets", 2 * DEFAULT_QUEUES
    )


def _tooltip(row: Row) -> str:
    suggested = row["suggested_timeout"]
    lines = [
        f"{row['name']}, first receive to delete",
        *(f"{q} {duration(row[f'processing_{q}'])}" for q in ("p50", "p95", "p99")),
        f"visibility timeout {duration(row['visibility_timeout'])}",
    ]
    if suggested and suggested != row["visibility_timeout"]:
        lines.append(f"recommended timeout {duration(suggested)}")
    return "\n".join(lines)


def _level(begin: float, end: float, kind: str) -> str:
    """Draw a horizontal line with a minimum length."""
    middle = _HEIGHT // 2
    end = max(end, begin + 0.004)
    return (
        f'<line class="{kind} teal" x1="{begin:.1%}" x2="{end:.1%}" y1="{middle}" y2="{middle}"/>'
    )


def _upright(at: float, kind: str, top: int, bottom: int) -> str:
    return f'<line class="{kind}" x1="{at:.1%}" x2="{at:.1%}" y1="{top}" y2="{bottom}"/>'
