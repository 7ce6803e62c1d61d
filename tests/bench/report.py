"""Results as tables, in the terminal and in Markdown."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from rich.console import Console, Group
from rich.markup import escape
from rich.table import Table

from bench.record import Comparison

_WIDTH = 150
# What is shown of the details of a measurement.
_DETAILS = {
    "requests_per_second": "req/s",
    "p50_ms": "p50 ms",
    "p99_ms": "p99 ms",
    "worst_ms": "worst ms",
    "wake_up_p99_ms": "p99 ms",
    "sends_p99_ms": "sends p99 ms",
    "broker_us": "broker µs",
    "database_us": "db µs",
    "switches": "switches",
    "idle_percent": "idle %",
    "memory_mb": "PSS MB",
    "resident_mb": "RSS MB",
    "database_mb": "db PSS MB",
    "pages": "pages",
    "refused": "refused",
    "cut_off": "cut off",
}


@dataclass(frozen=True, slots=True)
class Goal:
    """A ratio or a number, by rounds, and what it is to reach or not to exceed."""

    label: str
    rounds: Sequence[float]
    goal: float
    # None: one of its contestants was not warm.
    met: bool | None
    shown: str
    goal_shown: str

    @property
    def shares(self) -> tuple[float, float, float]:
        """The lowest, the median and the highest, each as a share of the goal."""
        found = (min(self.rounds), median(self.rounds), max(self.rounds))
        lowest, middle, highest = (value / self.goal for value in found)
        return lowest, middle, highest


def console() -> Console:
    """Return a console that is wide enough for the tables where there is no terminal."""
    found = Console(soft_wrap=True)
    return found if found.is_terminal else Console(soft_wrap=True, width=_WIDTH)


def number(value: float) -> str:
    """Return three significant digits, or all before the point."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def goals(comparison: Comparison) -> list[Goal]:
    """Return the ratios that have a goal, then the numbers that have a limit."""
    sign = "≤" if comparison.less_is_better else "≥"

    def goal(
        label: str, names: Sequence[str], rounds: Sequence[float], value: float, unit: str
    ) -> Goal:
        middle = median(rounds)
        met: bool | None = middle <= value if comparison.less_is_better else middle >= value
        if not all(comparison.warm_ups[n].steady for n in names if n in comparison.warm_ups):
            met = None
        shown, goal_shown = f"{number(middle)} {unit}".strip(), f"{sign} {number(value)}"
        return Goal(label, rounds, value, met, shown, goal_shown)

    ratios = [
        goal(f"{ratio.of}  :  {ratio.to}", (ratio.of, ratio.to), ratio.rounds, ratio.goal, "x")
        for ratio in comparison.ratios()
        if ratio.goal is not None
    ]
    numbers = [
        goal(name, (name,), values, limit, comparison.unit)
        for name, limit in comparison.limits.items()
        if (values := comparison.values.get(name))
    ]
    return ratios + numbers


def heading(comparison: Comparison) -> str:
    better = ["less is better"] if comparison.less_is_better else []
    about = ", ".join([comparison.unit, *better] if comparison.unit else better)
    return f"{comparison.case}: {comparison.title} ({about})"


def rows(comparison: Comparison) -> list[list[str]]:
    """Return a table of the contestants, its columns' names first."""
    medians = {name: comparison.detail_medians(name) for name in comparison.values}
    shown = {k: v for k, v in _DETAILS.items() if any(k in found for found in medians.values())}
    table = [["", "median", "lowest", "highest", "ratio", *shown.values()]]
    for name, values in comparison.values.items():
        ratio = comparison.ratio(name, comparison.reference)
        numbers = [comparison.median(name), min(values), max(values)]
        table.append(
            [
                name,
                *(number(value) for value in numbers),
                f"{number(median(ratio.rounds))} x" if ratio else "",
                *(number(medians[name][k]) if k in medians[name] else "" for k in shown),
            ]
        )
    return table


def goal_rows(comparisons: Sequence[Comparison]) -> list[list[str]]:
    """Return a table of everything that has a goal, its columns' names first."""
    table = [["case", "what", "median", "goal", ""]]
    for comparison in comparisons:
        for goal in goals(comparison):
            case = f"{comparison.case}: {comparison.title}"
            verdict = {True: "met", False: "missed", None: "not warm"}[goal.met]
            table.append([case, goal.label, goal.shown, goal.goal_shown, verdict])
    return table


def notes(comparison: Comparison) -> list[str]:
    """Return who failed, and who was not warm."""
    found = [f"{name} failed: {why}" for name, why in comparison.failures.items()]
    cold: dict[int, list[str]] = {}
    for name, warm_up in comparison.warm_ups.items():
        if not warm_up.steady:
            cold.setdefault(warm_up.seconds, []).append(name)
    return found + [
        f"{'; '.join(names)}: not steady after {seconds} s of warm-up"
        for seconds, names in cold.items()
    ]


def comparison_shown(comparison: Comparison) -> Group:
    """Return a comparison for the terminal."""
    lines = [f"[yellow]{escape(note)}[/]" for note in notes(comparison)]
    return Group(_table(heading(comparison), rows(comparison), texts=1), *lines, "")


def summary(comparisons: Sequence[Comparison]) -> Table:
    """Return the goals for the terminal."""
    return _table("Goals", goal_rows(comparisons), texts=2)


def _table(title: str, table: Sequence[Sequence[str]], *, texts: int) -> Table:
    found = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for index, name in enumerate(table[0]):
        found.add_column(name, justify="left" if index < texts else "right", no_wrap=True)
    for row in table[1:]:
        found.add_row(*(escape(cell) for cell in row))
    return found


def markdown(comparisons: Sequence[Comparison], subtitle: str) -> str:
    """Return everything as a page of Markdown: the goals, then each comparison."""
    parts = ["# Benchmark", subtitle, "## Goals", _markdown_table(goal_rows(comparisons), texts=2)]
    for comparison in comparisons:
        parts += [f"## {heading(comparison)}", _markdown_table(rows(comparison), texts=1)]
        if found := notes(comparison):
            parts.append("\n".join(f"- {note}" for note in found))
    return "\n\n".join(parts) + "\n"


def _markdown_table(table: Sequence[Sequence[str]], *, texts: int) -> str:
    lines = [list(row) for row in table]
    lines.insert(1, ["---" if index < texts else "---:" for index in range(len(table[0]))])
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)
