"""Results for people, as tables, and for programs, as JSON."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, Group
from rich.markup import escape
from rich.table import Table

from bench.record import Comparison

_WIDTH = 150


@dataclass(frozen=True, slots=True)
class Line:
    """A ratio as it is shown: of a contestant to another, or to what it shall not exceed."""

    label: str
    median: float
    lowest: float
    highest: float
    goal: float | None
    met: bool | None
    goal_text: str


def console() -> Console:
    """Return a console that is wide enough for the tables where there is no terminal."""
    found = Console(soft_wrap=True)
    return found if found.is_terminal else Console(soft_wrap=True, width=_WIDTH)


def number(value: float) -> str:
    """Return three significant digits, or all before the point."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def lines(comparison: Comparison) -> list[Line]:
    """Return the ratios of a comparison, then its absolute numbers by their limits."""
    sign = "≤" if comparison.less_is_better else "≥"
    found = []
    for ratio in comparison.ratios():
        met = None if ratio.goal is None else comparison.meets(ratio.median, ratio.goal)
        text = "" if ratio.goal is None else f"{sign} {number(ratio.goal)}"
        found.append(
            Line(
                f"{ratio.of}  :  {ratio.to}",
                ratio.median,
                min(ratio.rounds),
                max(ratio.rounds),
                ratio.goal,
                met,
                text,
            )
        )
    for name, limit in comparison.limits.items():
        if name in comparison.values:
            shares = [value / limit for value in comparison.values[name]]
            middle = comparison.median(name)
            found.append(
                Line(
                    f"{name}, {number(middle)} {comparison.unit}  :  goal",
                    middle / limit,
                    min(shares),
                    max(shares),
                    1,
                    middle <= limit,
                    f"≤ {number(limit)} {comparison.unit}",
                )
            )
    return found


def heading(comparison: Comparison) -> str:
    better = ", less is better" if comparison.less_is_better else ""
    return f"{comparison.case}: {comparison.title} ({comparison.unit}{better})"


def medians(comparison: Comparison) -> Group:
    """Return the numbers of a comparison, each with its ratio to the reference."""
    table = Table(title=heading(comparison), title_justify="left", box=None, pad_edge=False)
    table.add_column("")
    for name in ("median", "lowest", "highest", f"to {comparison.reference}"):
        table.add_column(name, justify="right")
    for name, values in comparison.values.items():
        ratio = comparison.ratio(name, comparison.reference)
        table.add_row(
            name,
            number(comparison.median(name)),
            number(min(values)),
            number(max(values)),
            f"{number(ratio.median)} x" if ratio else "",
        )
    failures = [
        f"[red]{escape(name)} failed:[/] {escape(why)}" for name, why in comparison.failures.items()
    ]
    return Group(table, *failures, "")


def summary(comparisons: Sequence[Comparison]) -> Table:
    """Return all ratios, and whether they reach what they should."""
    table = Table(title="Ratios", title_justify="left", box=None, pad_edge=False)
    for name in ("case", "ratio of  :  to"):
        table.add_column(name)
    for name in ("median", "lowest", "highest", "goal"):
        table.add_column(name, justify="right")
    table.add_column("")
    words = {None: "", True: "[green]met[/]", False: "[red]missed[/]"}
    for comparison in comparisons:
        for line in lines(comparison):
            table.add_row(
                f"{comparison.case}: {comparison.title}",
                line.label,
                number(line.median),
                number(line.lowest),
                number(line.highest),
                line.goal_text,
                words[line.met],
            )
    return table
