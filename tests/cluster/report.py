"""What came of runs, for people, as tables."""

from collections.abc import Sequence
from statistics import median

from rich.console import Group
from rich.markup import escape
from rich.table import Table

from cluster.bounds import BOUNDS
from cluster.outages import Outage
from cluster.run import MOST, Outcome


def recoveries(outcomes: Sequence[Outcome]) -> dict[str, dict[str, list[Outage]]]:
    """Return the outages by fault, in the order of BOUNDS, and by connection way."""
    found: dict[str, dict[str, list[Outage]]] = {}
    for outcome in outcomes:
        for outage in outcome.outages:
            ways = found.setdefault(outage.window.fault, {})
            ways.setdefault(outcome.connect, []).append(outage)
    return {fault: found[fault] for fault in BOUNDS if fault in found}


def spread(outages: Sequence[Outage]) -> str:
    """Return the median of outages, with the extremes where there are several."""
    seconds = sorted(outage.seconds for outage in outages)
    if len(seconds) < 2:
        return "".join(f"{value:.1f} s" for value in seconds)
    return f"{median(seconds):.1f} s  ({seconds[0]:.1f} to {seconds[-1]:.1f}, {len(seconds)} times)"


def recovery_table(outcomes: Sequence[Outcome]) -> Table:
    """Return the longest time without an acknowledged send, by fault and connection way."""
    ways = list(dict.fromkeys(outcome.connect for outcome in outcomes))
    table = Table(
        title="Longest time without an acknowledged send",
        title_justify="left",
        box=None,
        pad_edge=False,
    )
    table.add_column("fault")
    for way in ways:
        table.add_column(way, justify="right")
    table.add_column("at most", justify="right")
    table.add_column("")
    for fault, found in recoveries(outcomes).items():
        met = all(outage.met for outages in found.values() for outage in outages)
        bound = BOUNDS[fault]
        table.add_row(
            fault,
            *(spread(found.get(way, [])) for way in ways),
            f"{bound.most:g} s" + (" after the heal" if bound.stops else ""),
            "[green]met[/]" if met else "[red]missed[/]",
        )
    return table


def counts_table(outcomes: Sequence[Outcome]) -> Table:
    """Return the numbers of each run, and of all."""
    table = Table(title="Messages", title_justify="left", box=None, pad_edge=False)
    table.add_column("")
    for outcome in outcomes:
        table.add_column(f"{outcome.connect}, seed {outcome.seed}", justify="right")
    table.add_column("all", justify="right")
    for name in outcomes[0].counts:
        numbers = [outcome.counts[name] for outcome in outcomes]
        style = "" if name != "lost" else "green" if not sum(numbers) else "red"
        table.add_row(name, *(f"{n:,}" for n in numbers), f"{sum(numbers):,}", style=style)
    return table


def verdicts(outcomes: Sequence[Outcome]) -> Group:
    """Return what each rule says of all runs."""
    lines = []
    for name in outcomes[0].findings:
        found = [finding for outcome in outcomes for finding in outcome.findings[name]]
        sign = f"[red]✗ {name}: {len(found)}[/]" if found else f"[green]✓[/] {name}"
        lines += [sign, *(f"    {escape(finding)}" for finding in found[:MOST])]
    lines += [f"[red]✗ {escape(o.trouble)}[/]" for o in outcomes if o.trouble]
    return Group(*lines)
