"""Run the benchmark: `make bench`, `make bench-quick`, or `python -m bench` in the folder tests."""

import json
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import psycopg
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from bench import databases, machine, report
from bench.cases import CASES, Case
from bench.machine import Unavailable
from bench.peers import BEFORE
from bench.record import Comparison
from bench.run import PEERS, TROUBLE, Run

RESULTS = machine.FOLDER / "results"
# The peers whose versions a chart names, where they took part.
PEERS_NAMED = ("ElasticMQ", "moto", "PGMQ")


class Results:
    """The files of one run, written again after each case: a run that breaks keeps what it has."""

    def __init__(self, folder: Path, *, quick: bool, about: dict[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.about = about
        name = f"{about['date']}-{about['commit']}{'-quick' if quick else ''}"
        self.json = folder / f"{name}.json"
        self.markdown, self.png = self.json.with_suffix(".md"), self.json.with_suffix(".png")

    def write(self, comparisons: Sequence[Comparison], failures: dict[str, str]) -> None:
        found = [comparison.as_json() for comparison in comparisons]
        content = self.about | {"failures": failures, "comparisons": found}
        self.json.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
        there = {name for comparison in comparisons for name in comparison.values}
        named = [peer for peer in PEERS_NAMED if any(name.startswith(peer) for name in there)]
        line = subtitle(self.about, *named)
        self.markdown.write_text(report.markdown(comparisons, line))
        from bench import chart  # noqa: PLC0415 - Matplotlib, when all is measured.

        chart.ratios(comparisons, line, self.png)


def about(*, quick: bool) -> dict[str, Any]:
    """Return on what, of what and when the numbers are."""
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "commit": machine.commit(),
        "quick": quick,
        "machine": machine.describe(),
        "versions": machine.versions(),
    }


def subtitle(found: dict[str, Any], *names: str) -> str:
    host, versions = found["machine"], found["versions"]
    servers = ", ".join(f"{name} {versions[name]}" for name in ("PostgreSQL", *names))
    return (
        f"{found['date']}, commit {found['commit']}{', quick form' if found['quick'] else ''};"
        f" {host['cpu']}, {host['cores']} cores, {host['memory_gib']} GiB;"
        f" {servers}"
    )


def _sizes(
    _context: click.Context, _parameter: click.Parameter, given: Sequence[str]
) -> dict[str, Any]:
    known = {name for case in CASES.values() for name in case.full.sizes}
    found = {}
    for word in given:
        name, _, value = word.partition("=")
        if name not in known:
            raise click.BadParameter(f"no case has the size {name}: {', '.join(sorted(known))}")
        try:
            found[name] = json.loads(value)
        except ValueError as error:
            raise click.BadParameter(f"{name}: {error}") from error
    return found


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--quick", is_flag=True, help="The form of each case that takes a minute at most.")
@click.option("--case", "names", multiple=True, type=click.Choice([*CASES]), help="Only this one.")
@click.option("--peer", "wanted", multiple=True, type=click.Choice([*PEERS]), help="Only this one.")
@click.option("--rounds", type=click.IntRange(1, 100), help="Rounds of a comparison.")
@click.option("--seconds", type=click.IntRange(1, 3600), help="Seconds of a measurement.")
@click.option(
    "--size", "sizes", multiple=True, metavar="NAME=JSON", callback=_sizes,
    help='A size of a case, as connections=[16] or kinds=["FIFO"].',
)  # fmt: skip
@click.option(
    "--before", type=click.Path(exists=True, dir_okay=False, resolve_path=True),
    help="The command skipmq of another checkout, which takes part in the cases of peers.",
)  # fmt: skip
@click.option("--output", type=click.Path(path_type=Path), default=RESULTS, help="Folder of files.")
@click.option("--list", "listing", is_flag=True, help="List the cases.")
def bench(
    *,
    quick: bool,
    names: Sequence[str],
    wanted: Sequence[str],
    rounds: int | None,
    seconds: int | None,
    sizes: dict[str, Any],
    before: str | None,
    output: Path,
    listing: bool,
) -> None:
    """Compare SkipMQ with its peers under the same load, in turn, in one run."""
    if listing:
        for name, case in CASES.items():
            click.echo(f"{name:<12} {(case.measure.__doc__ or '').splitlines()[0]}")
        return
    # What was started is stopped again.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        machine.find("wrk")
    except Unavailable as error:
        raise click.ClickException(str(error)) from error
    console = report.console()
    results = Results(output, quick=quick, about=about(quick=quick))
    failures: dict[str, str] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with (
        databases.workplace() as folder,
        databases.server(folder) as server,
        Progress(*columns, console=console, transient=True) as progress,
    ):
        run = Run(
            folder=folder,
            databases=server,
            wanted=frozenset([BEFORE, *(PEERS[name] for name in wanted or PEERS)]),
            before=before or "",
            progress=progress,
            show=lambda comparison: console.print(report.comparison_shown(comparison)),
        )
        for name in names or CASES:
            began = time.monotonic()
            case = CASES[name]
            form = case.quick if quick else case.full
            chosen = {size: value for size, value in sizes.items() if size in form.sizes}
            run.case = name
            run.form = replace(
                form,
                rounds=rounds or form.rounds,
                seconds=seconds or form.seconds,
                sizes={**form.sizes, **chosen},
            )
            why = _measure(run, case)
            if why:
                failures[name] = why
                console.print(f"[red]{name} failed:[/]", why, markup=True)
            console.print(f"[dim]{name} took {time.monotonic() - began:.0f} s[/]\n")
            results.write(run.comparisons, failures)
    console.print(report.summary(run.comparisons))
    written = (results.json, results.markdown, results.png)
    files = [file for file in written if file.exists()]
    console.print("", subtitle(results.about), *files, sep="\n")
    if failures or any(comparison.failures for comparison in run.comparisons):
        console.print("[red]not all could be measured: see above[/]")
        sys.exit(1)


def _measure(run: Run, case: Case) -> str:
    """Run a case; return why it could not be run."""
    try:
        case.measure(run)
    except (*TROUBLE, psycopg.Error) as error:
        return machine.reason(error)
    return ""


if __name__ == "__main__":
    bench(prog_name="bench")
