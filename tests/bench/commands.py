"""Commands of `skipmq analytics`, run as a person would, and what they use."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click
import psutil

from bench import usage


@contextmanager
def running(
    url: str, log: Path, *command: str, standby: str = ""
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command on a database until it or the block ends; one that reads may read a standby."""
    others = {k: v for k, v in os.environ.items() if not k.startswith("SKIPMQ_")}  # noqa: TID251
    given = {"SKIPMQ_DATABASE_URL": url}
    if standby:
        given["SKIPMQ_ANALYTICS_URL"] = standby
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "skipmq", "analytics", *command],
            env=others | given,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def measured(url: str, log: Path, postmaster: int, *command: str) -> dict[str, float]:
    """Run a command; return its seconds, the most memory that a process of it had, in MiB, and the
    seconds of processors that its processes used, and those of the database meanwhile.
    """
    began, most = time.monotonic(), 0.0
    before = usage.processor_seconds(postmaster)
    used: dict[int, float] = {}
    with running(url, log, *command) as process:
        while process.poll() is None:
            for each in _family(process.pid):
                with suppress(psutil.NoSuchProcess):
                    most = max(most, each.memory_info().rss / 2**20)
                    times = each.cpu_times()
                    used[each.pid] = times.user + times.system
            time.sleep(0.1)
        if process.returncode:
            raise click.ClickException(log.read_text())
        seconds = time.monotonic() - began
    return {
        "seconds": seconds,
        "mib": most,
        "processor": sum(used.values()),
        "database": usage.processor_seconds(postmaster) - before,
    }


def _family(pid: int) -> list[psutil.Process]:
    try:
        return usage.tree(pid)
    except psutil.NoSuchProcess:
        return []
