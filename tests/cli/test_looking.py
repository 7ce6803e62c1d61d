"""Commands that look at the embedded server of a folder change nothing in it, and make none."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from skipmq.database import schema
from support import servers
from support.commands import invoke
from support.http import environment, free_port
from support.processes import holding, keeper_of, postmaster_of, until_gone

READERS = [
    ["queue", "list"],
    ["queue", "show", "orders"],
    ["queue", "peek", "orders"],
    ["queue", "stats"],
    ["queue", "stats", "orders"],
    ["queue", "purge", "orders", "--yes"],
    ["keys", "list"],
    ["sql", "list"],
    ["migrate"],
]


def run(data: Path, *words: str) -> tuple[int, str]:
    """Run a command on a data folder; return its status and what it said."""
    variables = environment({"data_dir": data, "port": free_port()}) | {"COLUMNS": "300"}
    done = invoke(words, variables)
    return done.code, done.stdout + done.stderr


def contents(folder: Path) -> dict[Path, Any]:
    """Return everything that a command could change in a folder."""
    found = {}
    for path in (folder, *folder.rglob("*")):
        status = path.lstat()
        text = path.read_bytes() if path.is_file() else None
        found[path] = (status.st_mode, status.st_uid, status.st_size, status.st_mtime_ns, text)
    return found


def stop_cleanly(data: Path) -> None:
    with servers.start(data) as server:
        schema.migrate(server.url)
        postmaster, its_keeper = postmaster_of(data), keeper_of(data)
    until_gone(postmaster)
    until_gone(its_keeper)


def kill(data: Path) -> None:
    with holding(data) as holder:
        holder.read()
        postmaster, its_keeper = postmaster_of(data), keeper_of(data)
        for pid in (its_keeper, postmaster):
            os.kill(pid, signal.SIGKILL)
        holder.kill()
    until_gone(its_keeper)
    until_gone(postmaster)


@pytest.mark.parametrize("words", READERS, ids=" ".join)
def test_command_that_needs_a_broker_makes_none(data: Path, words: list[str]) -> None:
    code, told = run(data, *words)

    assert code == 1
    assert told == f"skipmq: no broker in {data} yet: `skipmq serve` creates one\n"
    assert not data.exists()


def test_doctor_without_a_broker_says_what_makes_one(data: Path) -> None:
    code, told = run(data, "doctor")

    assert code == 0
    assert f"no database in {data} yet: `skipmq serve` creates one" in told
    assert not data.exists()


@pytest.mark.parametrize(
    ("stop", "ending"),
    [
        (stop_cleanly, "was shut down cleanly: `skipmq serve` starts it"),
        (kill, "was not shut down cleanly: `skipmq serve` starts it and recovers"),
    ],
)
def test_looking_at_a_broker_that_is_stopped_changes_nothing(
    data: Path, stop: Any, ending: str
) -> None:
    stop(data)
    before = contents(data)

    looked, told = run(data, "doctor")
    refused = [run(data, "migrate", option) for option in ("--dry-run", "--print-sql")]

    assert contents(data) == before
    assert looked == 0
    assert f"PostgreSQL 18 in {data} is not running and {ending}" in told
    assert [code for code, _ in refused] == [1, 1]
    assert all(ending in words for _, words in refused)


def test_doctor_looks_at_a_broker_that_runs(data: Path) -> None:
    with servers.start(data) as server:
        schema.migrate(server.url)
        postmaster = postmaster_of(data)

        code, told = run(data, "doctor")

        assert postmaster_of(data) == postmaster
    assert code == 0
    assert "(embedded)" in told
    assert "all roles and rights are present" in told
    assert "the node's functions can be called" in told
