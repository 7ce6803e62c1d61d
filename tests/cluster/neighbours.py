"""A fault in one partition, and what the queues of the other one noticed of it.

Each partition is a cluster of its own: it has a load, a history and a verdict of its own.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
from rich.table import Table

from cluster.history import Op
from cluster.injector import Injector
from cluster.load import RATE
from cluster.queues import QUEUES
from cluster.run import Outcome, run
from local_cluster import LocalCluster

OTHER, STRUCK = 0, 1
_REQUESTS = ("send", "receive", "delete", "hide")
_HOME = "select skipmq_router.home('000000000000', 'us-east-1', %s)"


@dataclass(frozen=True, slots=True)
class Figures:
    """What clients saw: requests without an answer, sends a second, seconds that a send took."""

    errors: int
    rate: float
    median: float
    p99: float


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What came of the runs on both partitions, and of the other's requests around the strike."""

    struck: Outcome
    other: Outcome
    before: Figures
    since: Figures

    @property
    def errors(self) -> list[Op]:
        """Return the requests for the other partition's queues that were not done."""
        return errors(self.other.record.ops)


def strike(
    cluster: LocalCluster,
    folder: Path,
    fault: str,
    *,
    seed: int,
    seconds: float = 2.0,
    rate: float = RATE,
    slack: float = 1.0,
) -> Outcomes:
    """Strike one partition under load on both, which begins `seconds` before.

    The load lasts as long afterwards, or until the partition is healthy again.
    """
    over = threading.Event()

    def struck(_: Injector) -> Iterator[str]:
        time.sleep(seconds)
        end = time.monotonic() + seconds
        yield fault
        time.sleep(max(end - time.monotonic(), 0))

    def spared(_: Injector) -> Iterator[str]:
        over.wait()
        yield from ()

    def one(number: int) -> Outcome:
        name = f"partition-{number}-{fault}-{seed}-"
        file = folder / f"{name}history.jsonl"
        faults = struck if number == STRUCK else spared
        how: dict[str, Any] = {"seed": seed, "rate": rate, "slack": slack}
        try:
            return run(
                cluster.partition(number), file, faults, prefix=prefix(cluster, number, name), **how
            )
        finally:
            over.set()

    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(one, number) for number in (OTHER, STRUCK)]
        other, there = [each.result() for each in runs]
    (window,) = there.record.windows
    ops = other.record.ops
    return Outcomes(
        there,
        other,
        figures([op for op in ops if window.begin - seconds < op.t_invoke < window.begin]),
        figures([op for op in ops if window.begin < op.t_invoke < window.begin + seconds]),
    )


def prefix(cluster: LocalCluster, partition: int, begin: str) -> str:
    """Return a prefix with which all queues of a run are at home in a partition."""
    for number in count(1):
        found = f"{begin}{number}-"
        if {home(cluster, found + queue.name) for queue in QUEUES} == {partition}:
            return found
    raise AssertionError


def home(cluster: LocalCluster, name: str) -> int:
    """Return the partition in which a queue of that name is created."""
    with psycopg.connect(cluster.owner_url) as router:
        row = router.execute(_HOME, (name,)).fetchone()
    assert row is not None
    return int(row[0])


def errors(ops: Sequence[Op]) -> list[Op]:
    """Return the requests whose outcome is unknown, and the sends that were refused."""
    asked = [op for op in ops if op.op in _REQUESTS]
    return [op for op in asked if op.type == "info" or (op.op == "send" and op.type == "fail")]


def figures(ops: Sequence[Op]) -> Figures:
    """Return what the clients saw in a part of a history."""
    sends = [op for op in ops if op.op == "send" and op.type == "ok"]
    # A batch is one request.
    took = sorted(op.t_ok - op.t_invoke for op in sends if op.place == 0)
    seconds = max(op.t_ok for op in ops) - min(op.t_invoke for op in ops) if ops else 0.0
    if not took:
        return Figures(len(errors(ops)), 0.0, 0.0, 0.0)
    return Figures(
        len(errors(ops)),
        len(sends) / seconds,
        took[len(took) // 2],
        took[min(len(took) * 99 // 100, len(took) - 1)],
    )


def rows(fault: str, seed: int, outcomes: Outcomes) -> list[dict[str, Any]]:
    """Return the figures before and since a strike, as a table and as JSON have them."""
    (outage,) = outcomes.struck.outages
    return [
        {
            "fault": fault,
            "seed": seed,
            "outage": round(outage.seconds, 1),
            "when": when,
            "errors": seen.errors,
            "sends_a_second": round(seen.rate, 1),
            "p50_ms": round(seen.median * 1000, 1),
            "p99_ms": round(seen.p99 * 1000, 1),
        }
        for when, seen in (("before", outcomes.before), ("since", outcomes.since))
    ]


def table(found: Sequence[dict[str, Any]]) -> Table:
    """Return a table of what the queues of the other partition noticed."""
    made = Table(*found[0], box=None, pad_edge=False)
    for row in found:
        made.add_row(*map(str, row.values()))
    return made
