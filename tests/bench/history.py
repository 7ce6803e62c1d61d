"""Exports: what one takes, how that grows, and what it costs a queue. `make bench-history`."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any

import click
import psutil
import psycopg
from rich.console import Console
from rich.table import Table

from bench import databases, load, report
from bench.__main__ import RESULTS, about
from bench.load import Shape
from support.postgres import as_node

_QUEUES, _DAYS, _BODY = 20, 3, 256
# Rows that one transaction settles.
_SETTLED = 5_000
_GENERATE = f"""
insert into skipmq.history (settled_at, sent_at, first_received_at, xid, id, queue_id,
  receive_count, body_bytes, attribute_bytes, message_id, outcome, node, body)
select s.at, s.at - interval '9 s' * random(), s.at - interval '1 s' * random(),
  pg_current_xact_id()::text::bigint, n, (select min(queue_id) from skipmq.queue) + n %% {_QUEUES},
  1 + (random() < 0.02)::int, {_BODY}, 0, gen_random_uuid(), 'deleted', 'skipmq 1-' || n %% 4,
  case when n %% 2 = 0 then repeat(md5(n::text), {_BODY // 32}) end
from generate_series(%(first)s::bigint, %(last)s::bigint) n
cross join lateral (select clock_timestamp() - make_interval(secs => %(ago)s::float8) as at) s"""
_SPARK = ("analytics", "export", "--lake")


def generate(url: str, rows: int) -> None:
    """Write a history of so many rows over three days, as many transactions would leave it."""
    with psycopg.connect(url, autocommit=True) as connection:
        for number in range(_QUEUES):
            connection.execute("select skipmq.create_queue(%s)", (f"queue-{number}",))
        for first in range(0, rows, _SETTLED):
            ago = _DAYS * 86_400 * (1 - first / rows)
            last = min(first + _SETTLED, rows) - 1
            connection.execute(_GENERATE, {"first": first, "last": last, "ago": ago})
        connection.execute("vacuum analyze skipmq.history")
        connection.execute("checkpoint")


@contextmanager
def exporting(url: str, lake: Path, *, kindness: int = 0) -> Iterator[subprocess.Popen[bytes]]:
    """Run an export as a person would, for as long as it takes or the block runs."""
    others = {k: v for k, v in os.environ.items() if not k.startswith("SKIPMQ_")}  # noqa: TID251
    command = ["nice", f"-n{kindness}", sys.executable, "-m", "skipmq", *_SPARK, str(lake)]
    log = lake.with_suffix(".log")
    with log.open("wb") as told:
        process = subprocess.Popen(
            command,
            env=others | {"SKIPMQ_DATABASE_URL": as_node(url)},
            stdout=told,
            stderr=told,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def measured(url: str, lake: Path) -> dict[str, float]:
    """Run an export; return its seconds and the most memory that its JVM had, in MiB."""
    began, most = time.monotonic(), 0.0
    with exporting(url, lake) as process:
        while process.poll() is None:
            for each in _family(process.pid):
                with suppress(psutil.NoSuchProcess):
                    if each.name() == "java":
                        most = max(most, each.memory_info().rss / 2**20)
            time.sleep(0.1)
        if process.returncode:
            raise click.ClickException(lake.with_suffix(".log").read_text())
        seconds = time.monotonic() - began
    return {"seconds": seconds, "java_mib": most}


def _family(pid: int) -> list[psutil.Process]:
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--rows", type=int, multiple=True, default=(500_000, 5_000_000), help="Sizes.")
@click.option("--rounds", type=int, default=3, help="Rounds of the loaded queue.")
@click.option("--seconds", type=int, default=20, help="Seconds of each.")
@click.option("--output", type=click.Path(path_type=Path), default=RESULTS, help="Folder of files.")
def history(*, rows: tuple[int, ...], rounds: int, seconds: int, output: Path) -> None:
    """Measure exports of histories of several sizes, and a queue while one runs."""
    console = report.console()
    found: dict[str, Any] = about(quick=False)
    with databases.workplace() as folder, databases.server(folder) as server:
        found["sizes"] = []
        for size in rows:
            with databases.migrated(server) as url:
                found["sizes"].append(_size(url, folder / f"lake-{size}", size, console))
        with databases.migrated(server) as url:
            generate(url, min(rows))
            found["loaded"] = _loaded(url, folder, rounds, seconds, console)
    output.mkdir(parents=True, exist_ok=True)
    file = output / f"{found['date']}-{found['commit']}-history.json"
    file.write_text(json.dumps(found, indent=2) + "\n")
    _show(found, console)
    console.print(str(file))


def _size(url: str, lake: Path, rows: int, console: Console) -> dict[str, Any]:
    with console.status(f"{rows:,} rows"):
        began = time.monotonic()
        generate(url, rows)
        steps = {"generate": {"seconds": time.monotonic() - began}}
        size = "select sum(pg_total_relation_size(inhrelid)) from pg_inherits"
        of_table = int(databases.ask(url, f"{size} where inhparent = 'skipmq.history'::regclass"))
        steps["export all"] = measured(url, lake)
        steps["export nothing"] = measured(url, lake)
        files = list((lake / "history").rglob("*.parquet"))
    return {
        "rows": rows,
        "table_mib": of_table / 2**20,
        "lake_mib": sum(file.stat().st_size for file in files) / 2**20,
        "files": len(files),
        "steps": steps,
    }


def _loaded(
    url: str, folder: Path, rounds: int, seconds: int, console: Console
) -> dict[str, list[float]]:
    """Return messages a second of a queue, alone and while one export follows the other."""
    databases.create_queue(url, "loaded")
    queue = databases.ask(url, "select skipmq.queue_id('loaded')")
    rates: dict[str, list[float]] = {"alone": [], "export": [], "export, nice 19": []}

    def cycles() -> float:
        return load.pgbench(
            url,
            "skipmq.sql",
            lambda: databases.waiting(url, int(queue)),
            Shape(),
            seconds,
            queue=queue,
            lax="off",
        ).rate

    cycles()
    for number in range(rounds):
        for name, results in rates.items():
            with console.status(f"round {number + 1}: {name}"):
                if name == "alone":
                    results.append(cycles())
                    continue
                kindness = 19 if "nice" in name else 0
                with _exports(url, folder / f"{number}-{kindness}", kindness):
                    results.append(cycles())
    return rates


@contextmanager
def _exports(url: str, folder: Path, kindness: int) -> Iterator[None]:
    """Export into new lakes, one after the other, for as long as the block runs."""
    folder.mkdir()
    over = threading.Event()
    begun = threading.Event()

    def work() -> None:
        number = 0
        while not over.is_set():
            number += 1
            lake = folder / f"lake-{number}"
            with exporting(url, lake, kindness=kindness) as process:
                while process.poll() is None and not over.wait(0.1):
                    if any(lake.glob("_staging/*")):
                        begun.set()

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait(300)
    try:
        yield
    finally:
        over.set()
        thread.join()


def _show(found: dict[str, Any], console: Console) -> None:
    table = Table("rows", "step", "seconds", "rows/s", "JVM MiB", box=None)
    for size in found["sizes"]:
        for name, step in size["steps"].items():
            table.add_row(
                f"{size['rows']:,}",
                name,
                f"{step['seconds']:.1f}",
                f"{size['rows'] / step['seconds']:,.0f}" if name != "export nothing" else "",
                f"{step['java_mib']:.0f}" if "java_mib" in step else "",
            )
    console.print(table)
    for size in found["sizes"]:
        console.print(
            f"{size['rows']:,} rows: {size['table_mib']:.0f} MiB in the database,"
            f" {size['lake_mib']:.0f} MiB in {size['files']} files of the lake"
        )
    rates = found["loaded"]
    for name, values in rates.items():
        ratio = median(a / b for a, b in zip(values, rates["alone"], strict=True))
        console.print(f"queue, {name}: {median(values):,.0f} messages/s, {ratio:.2f} of alone")


if __name__ == "__main__":
    history(prog_name="bench.history")
