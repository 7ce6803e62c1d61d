"""How all plots look, and how they get into the page."""

import io
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import matplotlib as mpl
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from skipmq.analytics.page.numbers import count, duration

# Each colour stands for one of the page's, which differ in the light and in the dark.
INK, MUTED, LINE = "#22303c", "#5b6b78", "#dfe5ea"
TEAL, ORANGE, GREY, GREEN, VIOLET, GOLD = (
    *("#2a7f9e", "#d9653b", "#93a1ad"),
    *("#5f9e63", "#8a6bb1", "#c79a32"),
)
SERIES = (TEAL, ORANGE, GREEN, VIOLET, GOLD, GREY)
_NAMES = {
    INK: "ink", MUTED: "muted", LINE: "line", TEAL: "teal", ORANGE: "orange", GREY: "grey",
    GREEN: "green", VIOLET: "violet", GOLD: "gold",
}  # fmt: skip
# Times that stand on a logarithmic axis, in seconds.
_TICKS = (
    *(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 60, 180, 600, 1_800, 3_600, 10_800),
    *(43_200, 86_400, 259_200, 864_000),
)
_WIDTH = 10.6
_ROW = 1.75
_STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "text.color": INK,
    "axes.edgecolor": LINE,
    "axes.labelcolor": MUTED,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "svg.fonttype": "none",
    "svg.hashsalt": "skipmq",
}


def panels(rows: int, columns: int, *, height: float = _ROW) -> tuple[Figure, Any]:
    """Return a figure and its axes, so many rows and columns; the height of a row in inches."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH, rows * height + 0.25), layout="constrained")
        figure.get_layout_engine().set(w_pad=0.06, h_pad=0.06, wspace=0.03, hspace=0.05)  # type: ignore[union-attr, call-arg]
        axes = figure.subplots(rows, columns, squeeze=False)
    figure.patch.set_alpha(0)
    for one in axes.flat:
        _dress(one)
    return figure, axes


def _dress(axes: Any) -> None:
    axes.patch.set_alpha(0)
    axes.grid(axis="y", color=LINE, lw=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, labelsize=7.5)
    for side in axes.spines.values():
        side.set_visible(False)


def title(axes: Any, text: str, note: str = "") -> None:
    """Write what a panel shows above it, at its left."""
    axes.set_title(text, loc="left", fontsize=8.5, weight="bold", color=INK, parse_math=False)
    if note:
        axes.set_title(note, loc="right", fontsize=7.5, color=MUTED, parse_math=False)


def times(axes: Any, since: datetime, until: datetime) -> None:
    """Make the x axis one of times in UTC, from one to the other."""
    locator = AutoDateLocator(minticks=3, maxticks=7, tz="UTC")  # type: ignore[no-untyped-call]
    axes.set_xlim(since, until)
    axes.xaxis.set_major_locator(locator)
    form = ConciseDateFormatter(locator, tz="UTC", show_offset=False)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_formatter(form)


def counts(axes: Any, most: float) -> None:
    """Make the y axis one of numbers, from zero."""
    axes.set_ylim(0, max(most * 1.12, 1))
    axes.yaxis.set_major_locator(MaxNLocator(3, integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: count(value)))


def durations(axes: Any, values: Sequence[float | None]) -> None:
    """Make the y axis a logarithmic one of seconds that holds the values."""
    there = [value for value in values if value]
    axes.set_yscale("log")
    axes.set_ylim(min(there, default=0.1) / 1.6, max(there, default=1) * 1.9)
    low, high = axes.get_ylim()
    shown = [tick for tick in _TICKS if low <= tick <= high]
    axes.yaxis.set_major_locator(FixedLocator(shown[:: -(-len(shown) // 5) or 1]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: duration(value)))


def legend(figure: Figure, handles: Sequence[Any]) -> None:
    """Put one legend for all panels above them."""
    figure.legend(
        handles=list(handles), loc="outside upper left", ncols=len(handles), frameon=False,
        fontsize=8, handlelength=1.4, columnspacing=1.6, labelcolor=INK,
    )  # fmt: skip


def svg(figure: Figure) -> str:
    """Return a figure as SVG whose colours are those of the page around it."""
    file = io.StringIO()
    with mpl.rc_context(_STYLE):
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r' width="[\d.]+pt" height="[\d.]+pt"', ' class="plot" role="img"', text, count=1)
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    for colour, name in _NAMES.items():
        text = text.replace(colour, f"var(--{name})")
    return text
