"""Closed-loop load: as many life cycles as a broker can do. wrk over HTTP, pgbench in SQL."""

import json
import re
import secrets
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from bench import programs

CONNECTIONS = 16
CLIENTS = 4
_GRACE = 60


class Failed(Exception):  # noqa: N818 - a fact about a run.
    """A run with errors, or one in which nothing happened: its numbers mean nothing."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a life cycle is made of; no groups means standard queues."""

    batch: int = 10
    size: int = 256
    groups: int = 0

    def __str__(self) -> str:
        kib = f"{self.size // 1024} KiB" if self.size >= 1024 else f"{self.size} B"
        return f"batch {self.batch}, {kib}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whole life cycles of messages a second, and what else the program told."""

    rate: float
    details: dict[str, float]


def wrk(
    urls: Sequence[str],
    queues: Sequence[str],
    shape: Shape,
    seconds: int,
    connections: int = CONNECTIONS,
) -> Outcome:
    """Load nodes at the same time, each with its share of the connections."""
    with ExitStack() as stack:
        file = stack.enter_context(tempfile.NamedTemporaryFile("w", suffix=".queues"))
        file.write("\n".join(queues) + "\n")
        file.flush()
        running = [
            stack.enter_context(_wrk(url, file.name, shape, seconds, connections // len(urls)))
            for url in urls
        ]
        outputs = [process.communicate(timeout=seconds + _GRACE)[0] for process in running]
    outcomes = [parse_wrk(output) for output in outputs]
    return Outcome(
        sum(outcome.rate for outcome in outcomes),
        {name: max(outcome.details[name] for outcome in outcomes) for name in outcomes[0].details},
    )


def _wrk(
    url: str, file: str, shape: Shape, seconds: int, connections: int
) -> subprocess.Popen[str]:
    words = [programs.find("wrk"), "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "20s"]
    words += ["-s", str(programs.FOLDER / "cycle.lua"), url, "--", file]
    words += [str(shape.batch), str(shape.size), str(shape.groups), secrets.token_hex(8)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def parse_wrk(output: str) -> Outcome:
    """Return the outcome of a run without errors.

    Raises Failed.
    """
    lines = [line for line in output.splitlines() if line.startswith("{")]
    if not lines:
        raise Failed(f"wrk: {' '.join(output.split())[-300:]}")
    told = json.loads(lines[-1])
    if told["failed"] or told["lost"]:
        raise Failed(f"{told['failed']} errors, {told['lost']} lost requests; {told['why']}")
    if idle := [name for name in ("sent", "received", "deleted") if not told[name]]:
        raise Failed(f"nothing was {' or '.join(idle)}")
    details = {
        f"{name}_per_second": told[name] / told["seconds"]
        for name in ("requests", "sent", "received")
    }
    details |= {name: told[name] for name in ("p50_ms", "p99_ms")}
    return Outcome(told["deleted"] / told["seconds"], details)


def pgbench(
    url: str,
    script: str,
    waiting: Callable[[], int],
    shape: Shape,
    seconds: int,
    **variables: str,
) -> Outcome:
    """Run a script of life cycles; `waiting` counts the messages that are not deleted."""
    before = waiting()
    variables |= {"batch": str(shape.batch), "bytes": str(shape.size)}
    words = [programs.postgresql("pgbench"), "-n", "-M", "prepared", f"-c{CLIENTS}", "-j1"]
    words += [f"-T{seconds}", "-f", str(programs.FOLDER / "pgbench" / script)]
    for name, value in variables.items():
        words += ["-D", f"{name}={value}"]
    done = subprocess.run(
        [*words, url], capture_output=True, text=True, check=False, timeout=seconds + _GRACE
    )
    if done.returncode:
        raise Failed(f"pgbench: {' '.join(done.stderr.split())[-300:]}")
    return parse_pgbench(done.stdout, shape.batch, waiting() - before)


def parse_pgbench(output: str, batch: int, left: int) -> Outcome:
    """Return the outcome of a run that sent a batch a cycle and left so many messages.

    Raises Failed.
    """
    cycles = re.search(r"actually processed: (\d+)", output)
    rate = re.search(r"^tps = ([\d.]+)", output, re.MULTILINE)
    broken = re.search(r"number of failed transactions: (\d+)", output)
    if not cycles or not rate or not broken or int(broken[1]) or not int(cycles[1]):
        raise Failed(f"pgbench: {' '.join(output.split())[-300:]}")
    sent = batch * int(cycles[1])
    if left >= sent:
        raise Failed("nothing was deleted")
    return Outcome(
        float(rate[1]) * batch * (sent - left) / sent, {"cycles_per_second": float(rate[1])}
    )
