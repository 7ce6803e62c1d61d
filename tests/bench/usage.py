"""What processes use: processor time, context switches and memory, read from /proc."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

_SWITCHES = ("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches")


def tree(pid: int) -> list[psutil.Process]:
    """Return a process and its descendants."""
    root = psutil.Process(pid)
    return [root, *root.children(recursive=True)]


def processor_seconds(pid: int) -> float:
    """Return the processor time of a tree of processes, with those of it that ended."""
    total = 0.0
    for process in tree(pid):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def context_switches(pid: int) -> dict[str, int]:
    """Return the context switches, voluntary and not, of each thread of a tree of processes."""
    return {
        thread.name: sum(_switches(thread / "status"))
        for process in tree(pid)
        for thread in _threads(process.pid)
    }


def _threads(pid: int) -> list[Path]:
    with suppress(OSError):
        return list(Path(f"/proc/{pid}/task").iterdir())
    return []


def _switches(status: Path) -> Iterator[int]:
    # A thread may end while it is read.
    with suppress(OSError):
        for line in status.read_text().splitlines():
            name, _, value = line.partition(":")
            if name in _SWITCHES:
                yield int(value)


def memory(pid: int) -> tuple[float, float]:
    """Return the proportional and the resident set size of a tree of processes in MB.

    The first counts a page that processes share once, the second once in each.
    """
    proportional = resident = 0
    for process in tree(pid):
        with suppress(psutil.NoSuchProcess):
            found = process.memory_full_info()
            proportional += found.pss
            resident += found.rss
    return proportional / 1e6, resident / 1e6


@dataclass(frozen=True, slots=True)
class Meter:
    """The use of a broker, and of its database when it has one, from when the meter was made."""

    broker: int
    postmaster: int | None
    processor: float
    database: float
    switches: dict[str, int]

    @classmethod
    def start(cls, broker: int, postmaster: int | None) -> "Meter":
        database = processor_seconds(postmaster) if postmaster else 0.0
        return cls(
            broker, postmaster, processor_seconds(broker), database, context_switches(broker)
        )

    def per_request(self, requests: float) -> dict[str, float]:
        """Return microseconds of processor time and context switches a request, and memory."""
        used = processor_seconds(self.broker) - self.processor
        switches = sum(
            number - self.switches.get(thread, 0)
            for thread, number in context_switches(self.broker).items()
        )
        proportional, resident = memory(self.broker)
        found = {
            "broker_us": used / requests * 1e6,
            "switches": switches / requests,
            "memory_mb": proportional,
            "resident_mb": resident,
        }
        if self.postmaster:
            database = processor_seconds(self.postmaster) - self.database
            found["database_us"] = database / requests * 1e6
            found["database_mb"], _ = memory(self.postmaster)
        return found
