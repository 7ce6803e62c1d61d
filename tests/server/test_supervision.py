"""What becomes of a node whose workers end, and what its service manager hears."""

import contextlib
import os
import socket
import subprocess
from pathlib import Path

import psutil
import pytest

from support.forks import Forked
from support.http import SKIPMQ, NodeProcess, environment, eventually, free_port
from support.processes import is_alive, session_of


def test_worker_that_ends_whenever_it_is_started_ends_the_node_with_the_cause(
    node_url: str,
) -> None:
    with NodeProcess(database_url=node_url, workers=2) as node:
        node.ready()

        def killed() -> int | None:
            for worker in node.workers():
                with contextlib.suppress(psutil.NoSuchProcess):
                    worker.kill()
            return node.process.poll()

        code = eventually(killed, seconds=60)

    assert code == 1
    last = node.lines[-1]
    assert last == "skipmq: a worker ends after each start: killed by SIGKILL"
    assert "Traceback" not in node.log


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_service_manager_is_told_when_the_node_is_ready_and_that_it_lives(
    node_url: str, tmp_path: Path, workers: int
) -> None:
    path = str(tmp_path / "notify")
    variables = {"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "1000000"}
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.settimeout(60)
        with NodeProcess(database_url=node_url, workers=workers, variables=variables) as node:
            told: list[str] = []
            while "READY=1" not in told:
                told.append(manager.recv(4096).decode())
            assert node.ready().process.poll() is None
            pings = [manager.recv(4096).decode() for _ in range(3)]

    assert set(told) <= {"READY=1", "WATCHDOG=1"}
    assert set(pings) == {"WATCHDOG=1"}


def test_node_that_stops_with_its_starter_pings_the_watchdog(node_url: str, tmp_path: Path) -> None:
    path = str(tmp_path / "notify")
    variables = environment({"database_url": node_url, "workers": 1, "port": free_port()})
    variables |= {"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "1000000"}
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.settimeout(60)
        command = [*SKIPMQ, "serve", "--stop-on-eof"]
        with Forked(command, env=variables, stdin=subprocess.PIPE) as node:
            heard: list[str] = []
            while heard.count("WATCHDOG=1") < 2:
                heard.append(manager.recv(4096).decode())
            assert node.stdin is not None
            node.stdin.close()
            assert node.wait(60) == 0

    assert "READY=1" in heard


def test_node_that_can_say_nothing_to_its_terminal_leaves_no_worker(node_url: str) -> None:
    """Close the pipe that its words go to, so that the one of its readiness fails."""
    variables = environment({"database_url": node_url, "workers": 2, "port": free_port()})
    reading, writing = os.pipe()
    os.close(reading)
    node = Forked([*SKIPMQ, "serve"], env=variables, stderr=writing)
    os.close(writing)

    # It has had two workers, of whose readiness it speaks.
    assert node.wait(60) == 1
    eventually(lambda: not any(is_alive(p) for p in psutil.pids() if session_of(p) == node.pid))
