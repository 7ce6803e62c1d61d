"""What exports and reports take, how it grows, what it costs a queue. `make bench-history`."""

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from statistics import median
from typing import Any

import click
import psutil
import psycopg
from rich.console import Console
from rich.table import Table

from bench import chart, databases, load, report
from bench.__main__ import RESULTS, about
from bench.load import Shape
from support.postgres import as_node

SIZES = (500_000, 1_600_000, 5_000_000)
_QUEUES, _DAYS, _BODY = 20, 3, 256
_SINCE = f"select current_date - {_DAYS + 1}"
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
def running(url: str, log: Path, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command of `skipmq analytics` as a person would, until it or the block ends."""
    others = {k: v for k, v in os.environ.items() if not k.startswith("SKIPMQ_")}  # noqa: TID251
    with log.open("wb") as told:
        process = subprocess.Popen(
            [sys.executable, "-m", "skipmq", "analytics", *command],
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


def measured(url: str, log: Path, *command: str) -> dict[str, float]:
    """Run a command; return its seconds and the most memory that a process of it had, in MiB."""
    began, most = time.monotonic(), 0.0
    with running(url, log, *command) as process:
        while process.poll() is None:
            for each in _family(process.pid):
                with suppress(psutil.NoSuchProcess):
                    most = max(most, each.memory_info().rss / 2**20)
            time.sleep(0.1)
        if process.returncode:
            raise click.ClickException(log.read_text())
        seconds = time.monotonic() - began
    return {"seconds": seconds, "mib": most}


def _family(pid: int) -> list[psutil.Process]:
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--rows", type=int, multiple=True, default=SIZES, help="Sizes, the biggest last.")
@click.option("--rounds", type=int, default=3, help="Rounds of the loaded queue.")
@click.option("--seconds", type=int, default=20, help="Seconds of each.")
@click.option("--output", type=click.Path(path_type=Path), default=RESULTS, help="Folder of files.")
def history(*, rows: tuple[int, ...], rounds: int, seconds: int, output: Path) -> None:
    """Measure exports and reports of histories of several sizes, and a queue beside them."""
    console = report.console()
    found: dict[str, Any] = about(quick=False)
    found["sizes"] = []
    with databases.workplace() as folder, databases.server(folder) as server:
        for size in rows:
            with databases.migrated(server) as url:
                found["sizes"].append(_size(url, folder / f"{size}", size, console))
                if size == rows[-1]:
                    found["loaded"] = _loaded(url, folder, rounds, seconds, console)
    output.mkdir(parents=True, exist_ok=True)
    file = output / f"{found['date']}-{found['commit']}-history.json"
    file.write_text(json.dumps(found, indent=2) + "\n")
    chart.growth(found, file.with_suffix(".png"))
    _show(found, console)
    console.print(str(file))


def _size(url: str, folder: Path, rows: int, console: Console) -> dict[str, Any]:
    folder.mkdir()
    log, lake = folder / "log", str(folder / "lake")
    since = databases.ask(url, _SINCE)
    out = str(folder / "report")
    began = time.monotonic()
    with console.status(f"{rows:,} rows: generate"):
        generate(url, rows)
    steps = {"generate": {"seconds": time.monotonic() - began}}
    size = "select sum(pg_total_relation_size(inhrelid)) from pg_inherits"
    of_table = int(databases.ask(url, f"{size} where inhparent = 'skipmq.history'::regclass"))
    commands = {
        "export": ("export", "--lake", lake),
        "export, nothing new": ("export", "--lake", lake),
        "report, lake": ("report", "--output", out, "--since", since, "--lake", lake),
        "report, lake, Spark": (
            *("report", "--output", out, "--since", since, "--lake", lake),
            *("--engine", "spark"),
        ),
        "report, database": ("report", "--output", out, "--since", since),
    }
    for name, command in commands.items():
        with console.status(f"{rows:,} rows: {name}"):
            steps[name] = measured(url, log, *command)
        console.print(f"{rows:,} rows: {name}", *(f"{n:,.1f} {k}" for k, n in steps[name].items()))
    files = list(Path(lake, "history").rglob("*.parquet"))
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
    """Return messages a second of a queue: alone, beside loops that only burn, beside analytics."""
    databases.create_queue(url, "loaded")
    queue = databases.ask(url, "select skipmq.queue_id('loaded')")
    since = databases.ask(url, _SINCE)
    numbers = itertools.count()

    def fresh(name: str) -> str:
        return str(folder / f"{name}-{next(numbers)}")

    beside: dict[str, Callable[[], AbstractContextManager[None]]] = {
        "alone": nullcontext,
        "busy loops": _burning,
        "export": lambda: _repeated(url, folder, lambda: ("export", "--lake", fresh("lake"))),
        "report": lambda: _repeated(
            url, folder, lambda: ("report", "--output", fresh("report"), "--since", since)
        ),
    }
    rates: dict[str, list[float]] = {name: [] for name in beside}

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
        for name, other in beside.items():
            with console.status(f"round {number + 1}: {name}"), other():
                rates[name].append(cycles())
            console.print(f"round {number + 1}: {name} {rates[name][-1]:,.0f} messages/s")
    return rates


@contextmanager
def _burning() -> Iterator[None]:
    """Keep every core busy with nothing: what sharing the processor alone would cost."""
    loops = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(os.cpu_count() or 1)
    ]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


@contextmanager
def _repeated(url: str, folder: Path, command: Callable[[], Sequence[str]]) -> Iterator[None]:
    """Run a command over and over; the block begins when it reads the database."""
    over, begun = threading.Event(), threading.Event()
    reading = "select count(*) from pg_stat_activity where query like '%skipmq_rows%'"

    def work() -> None:
        while not over.is_set():
            with running(url, folder / "loaded.log", *command()) as process:
                while process.poll() is None and not over.wait(0.1):
                    # One is who asks.
                    if not begun.is_set() and int(databases.ask(url, reading)) > 1:
                        begun.set()

    thread = threading.Thread(target=work)
    thread.start()
    if not begun.wait(300):
        raise click.ClickException((folder / "loaded.log").read_text())
    try:
        yield
    finally:
        over.set()
        thread.join()


def _show(found: dict[str, Any], console: Console) -> None:
    table = Table("rows", "step", "seconds", "rows/s", "MiB", box=None)
    for size in found["sizes"]:
        for name, step in size["steps"].items():
            table.add_row(
                f"{size['rows']:,}",
                name,
                f"{step['seconds']:.1f}",
                f"{size['rows'] / step['seconds']:,.0f}" if "nothing" not in name else "",
                f"{step['mib']:.0f}" if "mib" in step else "",
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
