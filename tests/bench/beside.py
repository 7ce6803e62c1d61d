"""What analytics costs a queue beside it, where its own work has processors of its own."""

import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from statistics import median

import click
import psutil
from rich.console import Console

from bench import commands, databases, load, peers, usage
from bench.load import Shape
from skipmq.database import address
from support import standby
from support.http import eventually
from support.postgres import as_node

_CONNECTIONS = 16
_CAUGHT_UP = (
    "select count(*) from pg_stat_replication"
    " where replay_lsn >= (select pg_current_wal_flush_lsn())"
)
_READING = (
    "select count(*) from pg_stat_activity"
    " where application_name in ('skipmq analytics', 'skipmq export')"
)


def loaded(
    url: str,
    folder: Path,
    since: str,
    kinds: Sequence[str],
    rounds: int,
    seconds: int,
    console: Console,
) -> dict[str, dict[str, list[float]]]:
    """Return messages a second and the 99th percentile of a queue's requests, by what runs beside.

    The node, its database and the load have half of the processors. What runs beside them has the
    other half, as on another machine, and so has the standby; sessions that read the primary are
    the primary's.
    """
    found: dict[str, dict[str, list[float]]] = {}
    numbers = itertools.count()
    own, other = _halves()
    with ExitStack() as stack:
        standby.copy(url, folder / "standby" / "postgresql")
        second = stack.enter_context(databases.server(folder / "standby"))
        copy = as_node(second.url(address.parameters(url)["dbname"]))
        broker = stack.enter_context(peers.skipmq(url, workers=1))
        assert broker.postmaster is not None
        for pid in (broker.pid, broker.postmaster):
            _place(pid, own)
        _place(databases.postmaster(copy), other)
        stack.enter_context(_placed(own))
        eventually(lambda: databases.ask(url, _CAUGHT_UP) == "1", 600, why="the standby has all")

        def again(standby: str, *command: str) -> AbstractContextManager[None]:
            def fresh() -> Sequence[str]:
                return [*command, str(folder / f"beside-{next(numbers)}")]

            return _repeated(as_node(url), standby, folder / "beside.log", fresh, other)

        report = ("report", "--since", since, "--output")
        beside: dict[str, Callable[[], AbstractContextManager[None]]] = {
            "alone": nullcontext,
            "busy loops": lambda: _burning(other),
            "export": lambda: again("", "export", "--lake"),
            "export, 5,000 rows/s": lambda: again("", "export", "--rate", "5000", "--lake"),
            "export from a standby": lambda: again(copy, "export", "--lake"),
            "report": lambda: again("", *report),
            "report from a standby": lambda: again(copy, *report),
        }

        def cycles() -> load.Outcome:
            return load.wrk(
                [broker.url], [broker.queue()], Shape(connections=_CONNECTIONS), seconds
            )

        cycles()
        for number in range(rounds):
            for name, running in beside.items():
                if kinds and name not in {"alone", *kinds}:
                    continue
                with console.status(f"round {number + 1}: {name}"), running():
                    outcome = cycles()
                values = found.setdefault(name, {"rate": [], "p99_ms": []})
                values["rate"].append(outcome.rate)
                values["p99_ms"].append(outcome.details["p99_ms"])
                console.print(
                    f"round {number + 1}: {name} {outcome.rate:,.0f} messages/s,"
                    f" p99 {outcome.details['p99_ms']:.1f} ms"
                )
    return found


def _halves() -> tuple[list[int], list[int]]:
    """Return the processors in two halves; raise click.ClickException where there is one."""
    processors = sorted(os.sched_getaffinity(0))
    half = len(processors) // 2
    if not half:
        raise click.ClickException("a queue beside analytics needs two processors")
    return processors[:half], processors[half:]


def _place(pid: int, processors: Sequence[int]) -> None:
    """Give a tree of processes, and those that it starts, these processors."""
    for process in usage.tree(pid):
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            for thread in process.threads():
                os.sched_setaffinity(thread.id, processors)


@contextmanager
def _placed(processors: Sequence[int]) -> Iterator[None]:
    """Give this process, and what the block starts, these processors."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, processors)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def _burning(processors: Sequence[int]) -> Iterator[None]:
    """Keep processors busy with nothing: what a busy neighbour alone costs."""
    loops = []
    for _ in processors:
        with _placed(processors):
            loops.append(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


@contextmanager
def _repeated(
    url: str,
    standby: str,
    log: Path,
    command: Callable[[], Sequence[str]],
    processors: Sequence[int],
) -> Iterator[None]:
    """Run a command over and over; the block begins when it reads the database."""
    over, begun = threading.Event(), threading.Event()

    def work() -> None:
        # Affinity is a thread's, and inherited from it.
        os.sched_setaffinity(0, processors)
        while not over.is_set():
            with commands.running(url, log, *command(), standby=standby) as process:
                while process.poll() is None and not over.wait(0.1):
                    if not begun.is_set() and int(databases.ask(standby or url, _READING)):
                        begun.set()

    thread = threading.Thread(target=work)
    thread.start()
    if not begun.wait(300):
        over.set()
        raise click.ClickException(log.read_text())
    try:
        yield
    finally:
        over.set()
        thread.join()


def medians(found: dict[str, dict[str, list[float]]]) -> Iterator[tuple[str, float, float, float]]:
    """Yield what ran, the median rate, and rate and percentile as ratios to those alone."""
    for name, values in found.items():
        ratios = [
            median(a / b for a, b in zip(values[key], found["alone"][key], strict=True))
            for key in ("rate", "p99_ms")
        ]
        yield name, median(values["rate"]), *ratios
