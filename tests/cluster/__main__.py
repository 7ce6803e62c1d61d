"""Try to lose a message: `make faults`, or `python -m cluster` in the folder tests."""

import json
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NoReturn

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from bench import machine
from bench.report import console as wide_console
from cluster import neighbours, report
from cluster.faults import FAULTS, missing
from cluster.history import Op, read
from cluster.injector import Injector
from cluster.run import Outcome, judge, run
from cluster.versions import versions
from local_cluster import ClusterError, LocalCluster

ROOT = Path(__file__).resolve().parent.parent.parent
RESULTS = Path(__file__).parent / "results"
WAYS = ("multi-host", "haproxy")
FIXED_SEED = 1
# A fault may take twice as long as it should before that is called wrong: all share one machine.
SLACK = 2.0
# Of two servers both must have what is acknowledged: a lost one has to come back.
_SLACK_OF_TWO = 2 * SLACK
# Seconds of load before and since a strike, of which the queues of another partition are measured.
_MEASURED = 30.0


@dataclass(slots=True)
class Results:
    """The files of a session, written again after each run: one that breaks keeps what it has."""

    folder: Path
    about: dict[str, Any]

    @property
    def name(self) -> str:
        return f"{self.about['date']}-{self.about['commit']}"

    def history(self, way: str, seed: int) -> Path:
        return self.folder / f"{self.name}-{way}-{seed}.jsonl"

    def write(self, outcomes: Sequence[Outcome]) -> list[Path]:
        files = [self.folder / f"{self.name}.{kind}" for kind in ("json", "png")]
        found = self.about | {"runs": [outcome.as_json() for outcome in outcomes]}
        files[0].write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
        from cluster import chart  # noqa: PLC0415 - Matplotlib, when all is measured.

        chart.draw(outcomes, subtitle(self.about), files[1])
        return files


def subtitle(about: dict[str, Any]) -> str:
    host = about["machine"]
    software = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    return (
        f"{about['date']}, commit {about['commit']}; all on one machine: {host['cpu']},"
        f" {host['cores']} cores, {host['memory_gib']} GiB; {software}"
    )


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--minutes", type=click.FloatRange(0.1), default=30, help="For all runs together.")
@click.option("--seed", type=int, help=f"Only this one, not {FIXED_SEED} and one by chance.")
@click.option(
    "--fault", "names", multiple=True, type=click.Choice([*FAULTS]), help="Only this one."
)
@click.option("--connect", "only", type=click.Choice(WAYS), help="Only this way to PostgreSQL.")
@click.option(
    "--partitions",
    is_flag=True,
    help="Strike one of two partitions, and measure the queues of the other one.",
)
@click.option("--output", type=click.Path(path_type=Path), default=RESULTS, help="Folder of files.")
@click.option("--judge", "recorded", type=click.Path(exists=True, path_type=Path),
              help="Only judge a recorded history.")  # fmt: skip
@click.option("--list", "listing", is_flag=True, help="List the faults.")
def command(
    *,
    minutes: float,
    seed: int | None,
    names: Sequence[str],
    only: str | None,
    partitions: bool,
    output: Path,
    recorded: Path | None,
    listing: bool,
) -> None:
    """Send and receive through a cluster while its parts are killed, and see what it promised.

    Ends with 1 when a rule was broken.
    """
    console = wide_console()
    if listing:
        for name, fault in FAULTS.items():
            click.echo(
                f"{name:<16} {fault.about}{' (needs ' + fault.needs + ')' if fault.needs else ''}"
            )
        return
    if recorded:
        _finish_bounded(console, [judge(list(read(recorded)))])
    for name, why in {name: missing(name) for name in names or FAULTS}.items():
        if why:
            console.print(f"[yellow]without {name}:[/] {why}")
    faults = [name for name in names or FAULTS if not missing(name)]
    if not faults:
        raise click.ClickException("no fault is left")
    seeds = [FIXED_SEED, random.SystemRandom().randrange(2, 10**6)] if seed is None else [seed]
    ways = [only] if only else [*WAYS]
    console.print(f"seeds: {', '.join(map(str, seeds))}")
    output.mkdir(parents=True, exist_ok=True)
    try:
        if partitions:
            _measure_neighbours(console, output, seeds, names or ["server-death"])
        outcomes = _session(console, output, ways, seeds, faults, minutes * 60)
    except ClusterError as error:
        raise click.ClickException(str(error)) from error
    _finish_bounded(console, outcomes)


def _finish_bounded(console: Console, outcomes: Sequence[Outcome]) -> NoReturn:
    """Finish where servers are as many as the bounds are for."""
    console.print(report.recovery_table(outcomes), "")
    _finish(console, outcomes)


def _finish(console: Console, outcomes: Sequence[Outcome]) -> NoReturn:
    console.print(report.counts_table(outcomes), "")
    console.print(report.verdicts(outcomes))
    sys.exit(0 if all(outcome.good for outcome in outcomes) else 1)


def _measure_neighbours(
    console: Console, output: Path, seeds: Sequence[int], faults: Sequence[str]
) -> NoReturn:
    """Strike one of two partitions by each fault; print what the queues of the other noticed."""
    found: list[dict[str, Any]] = []
    outcomes: list[Outcome] = []
    with LocalCluster(
        ROOT / ".cache" / "faults" / "partitions", partitions=2, servers=2
    ) as cluster:
        results = Results(output, about(cluster))
        for seed, fault in product(seeds, faults):
            struck = neighbours.strike(
                cluster, output, fault, seed=seed, seconds=_MEASURED, slack=_SLACK_OF_TWO
            )
            found += neighbours.rows(fault, seed, struck)
            outcomes += [struck.struck, struck.other]
    file = results.folder / f"{results.name}-partitions.json"
    file.write_text(json.dumps(results.about | {"rows": found}, indent=2) + "\n")
    console.print(neighbours.table(found), "", str(file), "")
    _finish(console, outcomes)


def _session(
    console: Console,
    output: Path,
    ways: Sequence[str],
    seeds: Sequence[int],
    faults: Sequence[str],
    seconds: float,
) -> list[Outcome]:
    """Do a run for each way and seed, of an equal share of the time; return what came of them."""
    share = seconds / len(ways) / len(seeds)
    outcomes: list[Outcome] = []
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[acknowledged]:,} acknowledged"),
    )
    results, files = None, []
    with Progress(*columns, console=console, transient=True) as progress:
        for way in ways:
            task = progress.add_task(f"{way}: starting", total=None, acknowledged=0)
            with LocalCluster(
                ROOT / ".cache" / "faults" / way, connect=way, namespaces="isolation" in faults
            ) as cluster:
                progress.remove_task(task)
                results = results or Results(output, about(cluster))
                for seed in seeds:
                    task = progress.add_task(f"{way}, seed {seed}", total=share, acknowledged=0)
                    outcome = run(
                        cluster,
                        results.history(way, seed),
                        partial(_until, time.monotonic() + share, faults),
                        seed=seed,
                        connect=way,
                        prefix=f"run-{seed}-",
                        slack=SLACK,
                        told=partial(_show, progress, task, f"{way}, seed {seed}"),
                    )
                    progress.remove_task(task)
                    outcomes.append(outcome)
                    files = results.write(outcomes)
                    _tell(console, outcome)
    console.print("", *files, "", sep="\n")
    return outcomes


def about(cluster: LocalCluster) -> dict[str, Any]:
    """Return on what, of what and when the numbers are."""
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "commit": machine.commit(),
        "machine": machine.describe(),
        "versions": versions(cluster),
    }


def _until(deadline: float, faults: Sequence[str], injector: Injector) -> Iterator[str]:
    for name in injector.order(faults):
        if time.monotonic() > deadline:
            return
        yield name


def _show(progress: Progress, task: TaskID, name: str, what: str, ops: Sequence[Op]) -> None:
    acknowledged = sum(op.op == "send" and op.type == "ok" for op in list(ops))
    elapsed = ops[-1].t_ok - ops[0].t_ok if ops else 0
    progress.update(
        task, description=f"{name}: {what}", completed=elapsed, acknowledged=acknowledged
    )


def _tell(console: Console, outcome: Outcome) -> None:
    broken = sum(map(len, outcome.findings.values()))
    verdict = "[green]all rules kept[/]" if outcome.good else f"[red]{broken} findings[/]"
    acknowledged = outcome.counts["acknowledged messages"]
    console.print(
        f"{outcome.connect}, seed {outcome.seed}: {len(outcome.outages)} faults,"
        f" {acknowledged:,} messages acknowledged, {outcome.counts['lost']} lost, {verdict}"
    )


if __name__ == "__main__":
    command(prog_name="cluster")
