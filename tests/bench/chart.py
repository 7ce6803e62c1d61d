"""Results as pictures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from bench.record import Comparison
from bench.report import Goal, goals, heading

_MET, _MISSED, _NOT_WARM, _INK, _PALE = "#2a7f9e", "#d9653b", "#93a1ad", "#22303c", "#dfe5ea"
_ROW, _WIDTH = 0.27, 11
_MARGIN, _LEFT, _ACROSS = 0.02, 0.36, 0.36
_LEAST = 0.01
_TICKS = [b * 10**e for e in range(-4, 5) for b in (1, 2, 5)]
_STEPS = {
    "export": "#2a7f9e",
    "export, nothing new": "#93a1ad",
    "report, lake": "#d9653b",
    "report, lake, Spark": "#e0a030",
    "report, database": "#8c5fa8",
    "verify, each row": "#4f8a4c",
}
_SECONDS = (1, 3, 10, 30, 100, 300, 1000)
mpl.rcParams |= {"font.family": "DejaVu Sans", "font.size": 9, "text.color": _INK}


def ratios(comparisons: Sequence[Comparison], subtitle: str, path: Path) -> None:
    """Draw what has a goal as bars from the goal, as shares of it, on a logarithmic scale."""
    groups = [(heading(c), goals(c)) for c in comparisons]
    groups = [(title, found) for title, found in groups if found]
    if not groups:
        return
    rows = sum(len(found) + 1.6 for _, found in groups)
    figure = Figure(figsize=(_WIDTH, rows * _ROW + 1.6), dpi=150, facecolor="white")
    inches = figure.get_figheight()
    top, bottom = 1 - 1.05 / inches, 0.45 / inches
    axes = figure.add_axes((_LEFT, bottom, _ACROSS, top - bottom))
    figure.text(0.02, 1 - 0.32 / inches, "SkipMQ benchmark: goals", fontsize=15, weight="bold")
    figure.text(0.02, 1 - 0.58 / inches, subtitle, fontsize=8.5, color="#5b6b78")
    _legend(figure, 1 - 0.32 / inches)
    y = 0.0
    for title, found in groups:
        y += 1.3
        _label(axes, y, title, weight="bold", x=(_MARGIN - _LEFT) / _ACROSS)
        for line in found:
            y += 1
            _bar(axes, y, line)
        y += 0.3
    _dress(axes, [line for _, found in groups for line in found], y)
    figure.savefig(path)


def _legend(figure: Figure, y: float) -> None:
    handles: list[Any] = [
        Patch(color=_MET, label="meets its goal"),
        Patch(color=_MISSED, label="misses its goal"),
        Patch(color=_NOT_WARM, label="was not warm"),
        Line2D([], [], color=_INK, lw=0, marker="|", ms=9, mew=1, label="goal"),
        Line2D([], [], color=_INK, lw=0.9, alpha=0.6, label="all rounds"),
    ]
    figure.legend(
        handles=handles, ncols=5, frameon=False, fontsize=8, loc="center right",
        bbox_to_anchor=(0.99, y + 0.002), handlelength=1.2, columnspacing=1.2,
    )  # fmt: skip


def _label(axes: Any, y: float, text: str, *, x: float, **style: Any) -> None:
    axes.text(x, y, text, transform=axes.get_yaxis_transform(), va="center", **style)


def _bar(axes: Any, y: float, goal: Goal) -> None:
    colour = {True: _MET, False: _MISSED, None: _NOT_WARM}[goal.met]
    lowest, middle, highest = (_shown(share) for share in goal.shares)
    axes.barh(y, middle - 1, left=1, height=0.66, color=colour, zorder=2)
    axes.plot([lowest, highest], [y, y], color=_INK, lw=0.9, alpha=0.6, zorder=3)
    _label(axes, y, goal.label, x=-0.015, ha="right", fontsize=8.5)
    _label(axes, y, goal.shown, x=1.025, color=colour, weight="bold", fontsize=8.5)
    _label(axes, y, goal.goal_shown, x=1.5, color="#5b6b78", fontsize=8.5)


def _shown(value: float) -> float:
    """Return where a ratio is drawn: nothing at all has no place on a logarithmic scale."""
    return max(value, _LEAST)


def _dress(axes: Any, found: Sequence[Goal], height: float) -> None:
    ends = [_shown(share) for goal in found for share in goal.shares]
    axes.set_xscale("log")
    axes.set_xlim(min(0.4, *ends) / 1.15, max(2.5, *ends) * 1.15)
    axes.set_ylim(height + 0.2, 0.4)
    low, high = axes.get_xlim()
    ticks = [tick for tick in _TICKS if low <= tick <= high]
    if len(ticks) > 10:
        ticks = [tick for tick in ticks if f"{tick:e}".startswith("1")]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.tick_params(axis="x", labeltop=True, length=0, colors="#5b6b78", labelsize=8)
    axes.grid(axis="x", color=_PALE, lw=0.8, zorder=0)
    axes.axvline(1, color=_INK, lw=1, zorder=1)
    axes.set_yticks([])
    for side in axes.spines.values():
        side.set_visible(False)


def memory(
    samples: Sequence[tuple[float, float]], growth: float, limit: float, subtitle: str, path: Path
) -> None:
    """Draw memory over time, and the trend of its second half."""
    figure = Figure(figsize=(_WIDTH, 4.2), dpi=150, facecolor="white")
    axes = figure.add_axes((0.07, 0.13, 0.9, 0.67))
    figure.text(0.02, 0.92, "SkipMQ soak: memory of a node under load", fontsize=15, weight="bold")
    figure.text(0.02, 0.865, subtitle, fontsize=8.5, color="#5b6b78")
    minutes = [at / 60 for at, _ in samples]
    axes.plot(minutes, [value for _, value in samples], color=_MET, lw=1.6)
    axes.axvspan(minutes[-1] / 2, minutes[-1], color=_PALE, alpha=0.45, lw=0)
    axes.text(
        minutes[-1] * 0.51,
        0.06,
        f"second half: {growth:+.1f} MB over the whole run's time, at most {limit:.1f}",
        transform=axes.get_xaxis_transform(),
        color=_MET if growth <= limit else _MISSED,
        weight="bold",
    )
    axes.set_ylim(0, max(value for _, value in samples) * 1.15)
    axes.set_xlim(0, minutes[-1])
    axes.set_xlabel("minutes")
    axes.set_ylabel("MB (proportional set size)")
    axes.grid(color=_PALE, lw=0.8)
    for side in axes.spines.values():
        side.set_visible(False)
    figure.savefig(path)


def growth(found: dict[str, Any], path: Path) -> None:
    """Draw seconds and memory of each step over the number of rows."""
    figure = Figure(figsize=(11, 4.4), dpi=150, facecolor="white", layout="constrained")
    figure.suptitle(
        "Analytics by the size of the history", fontsize=13, weight="bold", x=0.02, ha="left"
    )
    seconds, memory = figure.subplots(1, 2)
    sizes = [size["rows"] for size in found["sizes"]]
    for name, colour in _STEPS.items():
        measured = [size for size in found["sizes"] if name in size["steps"]]
        of = [size["rows"] for size in measured]
        for axes, what in ((seconds, "seconds"), (memory, "mib")):
            values = [size["steps"][name][what] for size in measured]
            axes.plot(of, values, "o-", color=colour, label=name)
    if first := found["sizes"][0]["steps"].get("export"):
        proportional = [first["seconds"] * n / sizes[0] for n in sizes]
        seconds.plot(sizes, proportional, ":", color=_INK, label="proportional")
    seconds.set(xscale="log", yscale="log", title="seconds", ylim=(1, None))
    memory.set(xscale="log", title="the biggest process, MiB", ylim=(0, None))
    for axes in (seconds, memory):
        axes.set_xticks(sizes, [f"{n / 1e6:g} M rows" for n in sizes])
        axes.minorticks_off()
        axes.grid(color=_PALE)
        axes.spines[["top", "right"]].set_visible(False)
    seconds.set_yticks(_SECONDS, [str(tick) for tick in _SECONDS])
    seconds.legend(frameon=False, fontsize=8)
    figure.savefig(path)
