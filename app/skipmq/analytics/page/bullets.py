"""How long work takes against the visibility timeout: a line for each queue, on one axis."""

import math
from collections.abc import Sequence

from markupsafe import Markup, escape

from skipmq.analytics.page.charts import MOST_QUEUES, SHORTEST, Chart, Rows
from skipmq.analytics.page.findings import Row
from skipmq.analytics.page.numbers import duration

_VALUES = ("processing_p50", "processing_p99", "visibility_timeout", "suggested_timeout")
# Few enough for a phone.
_TICKS = (0.001, 0.01, 0.1, 1, 10, 60, 600, 3_600, 43_200)
_MOST_TICKS = 6
_HEIGHT = 22
_LEGEND = (
    ("teal", "half to 95 % of the work"),
    ("teal thin", "to 99 %"),
    ("ink upright", "visibility timeout"),
    ("orange diamond", "timeout advised"),
)


def visibility(rows: Rows, names: Sequence[str]) -> Chart:
    """Draw for each queue how long work takes, from half to 99 % of it, against the timeout."""
    there = {
        name: found[0] for name, found in rows.items() if found[0]["processing_p50"] is not None
    }
    values = [max(row[c], SHORTEST) for row in there.values() for c in _VALUES if row[c]]
    low, high = min(values, default=0.1) / 2, max(values, default=60) * 2

    def share(value: float) -> float:
        return math.log(max(value, SHORTEST) / low) / math.log(high / low)

    shown = [tick for tick in _TICKS if low <= tick <= high]
    ticks = [(share(t), duration(t)) for t in shown[:: -(-len(shown) // _MOST_TICKS) or 1]]
    rules = "".join(_upright(at, "rule", 0, _HEIGHT) for at, _ in ticks)
    texts = "".join(f'<text x="{at:.1%}" y="14">{escape(text)}</text>' for at, text in ticks)
    axis = Markup(f'<div class="axis"><span></span><svg height="18">{texts}</svg></div>')  # noqa: S704 - as below.

    def one(row: Row) -> Markup:
        p50, p95, p99 = (share(row[f"processing_{q}"]) for q in ("p50", "p95", "p99"))
        timeout, better = row["visibility_timeout"], row["suggested_timeout"]
        drawn = _level(p50, p99, "thin") + _level(p50, p95, "thick")
        if timeout:
            drawn += _upright(share(timeout), "upright ink", 2, _HEIGHT - 2)
        if better and better != timeout:
            drawn += (
                f'<svg class="orange" x="{share(better):.1%}" overflow="visible">'
                '<path class="area" d="M-6 11l6-6 6 6-6 6z"/></svg>'
            )
        return Markup(  # noqa: S704 - names and texts are escaped.
            f'<div class="bullet"><span>{escape(row["name"])}</span>'
            f'<svg class="plot" height="{_HEIGHT}" role="img" tabindex="0"'
            f' aria-label="{escape(_said(row))}">{rules}{drawn}<g class="steps">'
            f'<rect width="100%" height="100%"><title>{escape(_said(row))}</title></rect>'
            "</g></svg></div>"
        )

    def draw(queues: Sequence[str]) -> Markup:
        return Markup("").join([*(one(there[name]) for name in queues), axis])

    title = "Processing time against the visibility timeout"
    found = [name for name in names if name in there]
    return Chart("visibility-plots", title, _LEGEND, found, draw, "bullets", 2 * MOST_QUEUES)


def _said(row: Row) -> str:
    better = row["suggested_timeout"]
    said = [
        f"{row['name']}, first receive to delete",
        *(f"{q} {duration(row[f'processing_{q}'])}" for q in ("p50", "p95", "p99")),
        f"visibility timeout {duration(row['visibility_timeout'])}",
    ]
    if better and better != row["visibility_timeout"]:
        said.append(f"timeout advised {duration(better)}")
    return "\n".join(said)


def _level(begin: float, end: float, kind: str) -> str:
    """Draw a line along the axis; one of no length is a dot."""
    middle = _HEIGHT // 2
    end = max(end, begin + 0.004)
    return (
        f'<line class="{kind} teal" x1="{begin:.1%}" x2="{end:.1%}" y1="{middle}" y2="{middle}"/>'
    )


def _upright(at: float, kind: str, top: int, bottom: int) -> str:
    return f'<line class="{kind}" x1="{at:.1%}" x2="{at:.1%}" y1="{top}" y2="{bottom}"/>'
