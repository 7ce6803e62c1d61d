"""Life cycles for an hour on one node: its memory must not grow. `make soak`."""

import json
import sys
import threading
import time
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from statistics import median

import click
from rich.console import Console

from bench import databases, load, peers, report, usage
from bench.__main__ import RESULTS, about, subtitle
from bench.load import Outcome, Shape
from bench.machine import Unavailable

_HOUR, _MINUTE = 3600, 60
_MOST_MB, _MOST_SHARE = 10, 0.05
_SAMPLES = 240

Sample = tuple[float, float]


def trend(samples: Sequence[Sample]) -> float:
    """Return the growth in a second: the median slope of all pairs, which peaks do not move."""
    slopes = [(b - a) / (t - s) for (s, a), (t, b) in combinations(samples, 2) if t > s]
    return median(slopes)


def growth(samples: Sequence[Sample]) -> tuple[float, float]:
    """Return the growth over the run's time as in its second half, and the most allowed."""
    duration = samples[-1][0] - samples[0][0]
    later = [sample for sample in samples if sample[0] >= duration / 2]
    middle = median(value for _, value in later)
    return trend(later) * duration, max(_MOST_MB, _MOST_SHARE * middle)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--quick", is_flag=True, help="A minute instead of an hour.")
@click.option("--output", type=click.Path(path_type=Path), default=RESULTS, help="Folder of files.")
def soak(*, quick: bool, output: Path) -> None:
    """Watch the memory of a node under load; fail when it grows."""
    console = report.console()
    try:
        samples, outcome = _measure(_MINUTE if quick else _HOUR, console)
    except (Unavailable, load.Failed) as error:
        raise click.ClickException(str(error)) from error
    grown, most = growth(samples)
    found = about(quick=quick)
    content = found | {
        "rate": outcome.rate,
        "details": outcome.details,
        "growth_mb": grown,
        "most_mb": most,
        "samples": samples,
    }
    output.mkdir(parents=True, exist_ok=True)
    name = f"{found['date']}-{found['commit']}-soak{'-quick' if quick else ''}"
    (output / f"{name}.json").write_text(json.dumps(content, indent=2) + "\n")
    from bench import chart  # noqa: PLC0415 - Matplotlib, when all is measured.

    chart.memory(samples, grown, most, subtitle(found), output / f"{name}.png")
    console.print(
        f"{outcome.rate:,.0f} messages/s; memory {samples[0][1]:.0f} MB at first,"
        f" {samples[-1][1]:.0f} MB at last; growth {grown:+.1f} MB, at most {most:.1f} MB"
    )
    console.print(f"{output / name}.json\n{output / name}.png")
    if grown > most:
        console.print("[red]the memory of the node grows[/]")
        sys.exit(1)


def _measure(seconds: int, console: Console) -> tuple[list[Sample], Outcome]:
    outcomes: list[Outcome] = []
    errors: list[Exception] = []
    with (
        databases.workplace() as folder,
        databases.server(folder) as server,
        databases.migrated(server) as database,
        peers.skipmq(database, workers=2) as node,
    ):
        queue = node.queue()

        def work() -> None:
            try:
                outcomes.append(load.wrk([node.url], [queue], Shape(), seconds))
            except load.Failed as error:
                errors.append(error)

        worker = threading.Thread(target=work)
        began = time.monotonic()
        worker.start()
        samples = []
        with console.status("") as status:
            while worker.is_alive():
                at = time.monotonic() - began
                samples.append((round(at, 1), round(usage.memory(node.pid)[0], 2)))
                status.update(f"soak: {at:.0f} of {seconds} s, {samples[-1][1]:.0f} MB")
                worker.join(seconds / _SAMPLES)
    if errors:
        raise errors[0]
    return samples, outcomes[0]


if __name__ == "__main__":
    soak(prog_name="soak")
