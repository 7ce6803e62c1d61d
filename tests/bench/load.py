"""Closed-loop load, as much as a server can do: wrk over HTTP, pgbench in SQL."""

import json
import os
import re
import secrets
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from bench import machine

CLIENTS = 4
_GRACE = 60
_LONGEST = 3600


class Failed(Exception):  # noqa: N818 - a fact about a run.
    """A run with errors, or one in which nothing happened: its numbers mean nothing."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The load: messages a request, bytes a body, groups (0: a standard queue), connections."""

    batch: int = 10
    size: int = 256
    groups: int = 0
    connections: int = 64

    def __str__(self) -> str:
        kib = f"{self.size // 1024} KiB" if self.size >= 1024 else f"{self.size} B"
        return f"batch {self.batch}, {kib}, {self.connections} connections"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a comparison compares, often messages a second, and what was measured with it."""

    rate: float
    details: dict[str, float]


def wrk(
    urls: Sequence[str], queues: Sequence[str], shape: Shape, seconds: int, *, whole: bool = True
) -> Outcome:
    """Load nodes at the same time, each with its share of the connections.

    With `whole`, the rate counts messages that were sent, received and deleted; otherwise requests,
    of a server that gives no messages. Raises Failed.
    """
    with ExitStack() as stack:
        file = stack.enter_context(tempfile.NamedTemporaryFile("w", suffix=".queues"))
        file.write("\n".join(queues) + "\n")
        file.flush()
        running = [
            stack.enter_context(
                _wrk(url, file.name, shape, seconds, shape.connections // len(urls))
            )
            for url in urls
        ]
        outputs = [process.communicate(timeout=seconds + _GRACE)[0] for process in running]
    outcomes = [parse_wrk(output, whole=whole) for output in outputs]
    details = {
        name: sum(outcome.details[name] for outcome in outcomes)
        for name in ("requests", "requests_per_second")
    } | {name: max(outcome.details[name] for outcome in outcomes) for name in ("p50_ms", "p99_ms")}
    return Outcome(sum(outcome.rate for outcome in outcomes), details)


def signed_requests(url: str, lines: Sequence[str], shape: Shape, seconds: int) -> Outcome:
    """Send requests that were signed before, in turn; the rate counts requests. Raises Failed."""
    with tempfile.NamedTemporaryFile("w", suffix=".requests") as file:
        file.write("\n".join(lines) + "\n")
        file.flush()
        with _started("signed.lua", url, seconds, shape.connections, [file.name]) as process:
            return parse_wrk(process.communicate(timeout=seconds + _GRACE)[0], whole=False)


def handshakes(url: str, connections: int, seconds: int) -> Outcome:
    """Ask for the node's health, each time on a connection of its own; the rate counts requests.

    Raises Failed.
    """
    with _started("handshake.lua", url, seconds, connections, []) as process:
        return parse_wrk(process.communicate(timeout=seconds + _GRACE)[0], whole=False)


def _wrk(
    url: str, file: str, shape: Shape, seconds: int, connections: int
) -> subprocess.Popen[str]:
    words = [file, str(shape.batch), str(shape.size), str(shape.groups), secrets.token_hex(8)]
    return _started("cycle.lua", url, seconds, connections, words)


def _started(
    script: str, url: str, seconds: int, connections: int, arguments: Sequence[str]
) -> subprocess.Popen[str]:
    words = [machine.find("wrk"), "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "20s"]
    words += ["-s", str(machine.FOLDER / script), url, "--", *arguments]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def parse_wrk(output: str, *, whole: bool = True) -> Outcome:
    """Return the outcome of a run without errors.

    Raises Failed.
    """
    lines = [line for line in output.splitlines() if line.startswith("{")]
    if not lines:
        raise Failed(f"wrk: {' '.join(output.split())[-300:]}")
    found = json.loads(lines[-1])
    if found["failed"] or found["lost"]:
        raise Failed(f"{found['failed']} errors, {found['lost']} lost requests; {found['why']}")
    needed = ("sent", "received", "deleted") if whole else ("requests",)
    if idle := [name for name in needed if not found[name]]:
        raise Failed(f"nothing was {' or '.join(idle)}")
    details = {name: found[name] for name in ("requests", "p50_ms", "p99_ms")}
    details["requests_per_second"] = found["requests"] / found["seconds"]
    return Outcome(found["deleted" if whole else "requests"] / found["seconds"], details)


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
    file = str(machine.FOLDER / "pgbench" / script)
    output = _pgbench(url, [f"-c{CLIENTS}", f"-T{seconds}", "-f", file], variables)
    return parse_pgbench(output, shape.batch, waiting() - before)


def call(url: str, statement: str, number: int, **variables: str) -> float:
    """Run a statement so often with one client, commits not synced; return microseconds a call."""
    environment = {"PGOPTIONS": "-c synchronous_commit=off"}
    output = _pgbench(url, ["-c1", f"-t{number}", "-f", "-"], variables, statement, environment)
    rate, _ = _transactions(output)
    return 1e6 / rate


def _pgbench(
    url: str,
    options: Sequence[str],
    variables: Mapping[str, str],
    script: str = "",
    environment: Mapping[str, str] | None = None,
) -> str:
    words = [machine.postgresql("pgbench"), "-n", "-M", "prepared", "-j1", *options]
    for name, value in variables.items():
        words += ["-D", f"{name}={value}"]
    done = subprocess.run(
        [*words, url],
        input=script,
        env=os.environ | (environment or {}),  # noqa: TID251
        capture_output=True,
        text=True,
        check=False,
        timeout=_LONGEST,
    )
    if done.returncode:
        raise Failed(f"pgbench: {' '.join(done.stderr.split())[-300:]}")
    return done.stdout


def parse_pgbench(output: str, batch: int, left: int) -> Outcome:
    """Return the outcome of a run that sent a batch a cycle and left so many messages.

    Raises Failed.
    """
    rate, cycles = _transactions(output)
    sent = batch * cycles
    if left >= sent:
        raise Failed("nothing was deleted")
    return Outcome(rate * batch * (sent - left) / sent, {})


def _transactions(output: str) -> tuple[float, int]:
    """Return transactions a second and their number, of a run in which none failed."""
    number = re.search(r"actually processed: (\d+)", output)
    rate = re.search(r"^tps = ([\d.]+)", output, re.MULTILINE)
    broken = re.search(r"number of failed transactions: (\d+)", output)
    if not number or not rate or not broken or int(broken[1]) or not int(number[1]):
        raise Failed(f"pgbench: {' '.join(output.split())[-300:]}")
    return float(rate[1]), int(number[1])
