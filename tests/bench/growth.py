"""How what exports and reports take grows with the history, as a picture."""

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

_COLOURS = {
    "export": "#2a7f9e",
    "export, nothing new": "#93a1ad",
    "report, lake": "#d9653b",
    "report, database": "#8c5fa8",
}
_TICKS = (1, 3, 10, 30, 100, 300, 1000)
_INK, _PALE = "#22303c", "#dfe5ea"


def draw(found: dict[str, Any], path: Path) -> None:
    """Draw seconds and memory of each step over the number of rows."""
    figure = Figure(figsize=(11, 4.4), dpi=150, facecolor="white", layout="constrained")
    figure.suptitle(
        "Analytics by the size of the history", fontsize=13, weight="bold", x=0.02, ha="left"
    )
    seconds, memory = figure.subplots(1, 2)
    sizes = [size["rows"] for size in found["sizes"]]
    for name, colour in _COLOURS.items():
        steps = [size["steps"][name] for size in found["sizes"]]
        for axes, what in ((seconds, "seconds"), (memory, "java_mib")):
            axes.plot(sizes, [step[what] for step in steps], "o-", color=colour, label=name)
    base = found["sizes"][0]["steps"]["export"]["seconds"]
    seconds.plot(sizes, [base * n / sizes[0] for n in sizes], ":", color=_INK, label="proportional")
    seconds.set(xscale="log", yscale="log", title="seconds", ylim=(1, None))
    memory.set(xscale="log", title="JVM at most, MiB", ylim=(0, None))
    for axes in (seconds, memory):
        axes.set_xticks(sizes, [f"{n / 1e6:g} M rows" for n in sizes])
        axes.minorticks_off()
        axes.grid(color=_PALE)
        axes.spines[["top", "right"]].set_visible(False)
    seconds.set_yticks(_TICKS, [str(tick) for tick in _TICKS])
    seconds.legend(frameon=False, fontsize=8)
    figure.savefig(path)
