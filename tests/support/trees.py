"""Processes with all that they have started: killed, frozen and thawed."""

import contextlib
import time
from collections.abc import Iterable, Iterator

import psutil


def one(pid: int | None) -> psutil.Process:
    """Return a process that must be there."""
    # Of no number psutil makes the number of this process.
    if pid is None:
        raise psutil.NoSuchProcess(0)
    return psutil.Process(pid)


def trees(pids: Iterable[int | None]) -> list[psutil.Process]:
    """Return the processes that are there, the roots first, with all their descendants."""
    roots = []
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            roots.append(one(pid))
    found = {root.pid: root for root in roots}
    for root in roots:
        with contextlib.suppress(psutil.NoSuchProcess):
            found |= {child.pid: child for child in root.children(recursive=True)}
    return list(found.values())


def kill(*pids: int | None) -> None:
    """Kill all at once, as a machine does that loses its power."""
    for process in trees(pids):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


@contextlib.contextmanager
def frozen(*pids: int | None) -> Iterator[None]:
    """Freeze all, as a machine does that stands still; thaw them at the end of the block."""
    stopped: dict[int, psutil.Process] = {}
    try:
        while fresh := [p for p in trees(pids) if p.pid not in stopped]:
            for process in fresh:
                stopped[process.pid] = process
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.suspend()
            time.sleep(0.01)  # One may have started another just before.
        yield
    finally:
        for process in reversed(stopped.values()):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()
