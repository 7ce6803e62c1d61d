"""The heartbeat of a worker: its figures of the last minute, for the console and ListNodes.

It also adds what happened since the last one to the minutes of the broker.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator
from math import isnan
from time import monotonic

from skipmq import release
from skipmq.broker import minutes, workers
from skipmq.broker.minutes import BOUNDS, Note
from skipmq.broker.node import Node
from skipmq.database import monitor
from skipmq.telemetry.metrics import HISTOGRAMS, Snapshot

INTERVAL = 5.0
# Beats in the minute over which rates and latencies are measured.
_BEATS = 12
_LATENCY = 0.99
# Notes that wait for the database, which is unavailable for that long: half an hour's.
_NOTES = 5_000
_UNAVAILABLE = "database-unavailable"
# Events of the last minute, and gauges of the node, which its first worker has: what the troubles
# of nodes are found by.
_COUNTED = (("refused", "refused"), ("cut", "cut"))
_OF_NODE = (
    ("certificate_ends", "certificate ends"),
    ("unarchived_days", "unarchived days"),
    ("clock_skew", "clock skew"),
)


class Heartbeat:
    """Writes the figures of this process every few seconds."""

    def __init__(
        self,
        node: Node,
        snapshot: Callable[[], Snapshot],
        connections: Callable[[], int | None],
        *,
        port: int | None,
        is_first: bool = True,
    ) -> None:
        """`is_first`: it is that of a node's first worker, which notes the state of the broker."""
        self._node, self._snapshot, self._connections = node, snapshot, connections
        self._port, self._is_first = port, is_first
        self._notes: deque[Note] = deque(maxlen=_NOTES)
        self._outage_ended = 0.0
        self._snapshots: deque[Snapshot] = deque(maxlen=_BEATS + 1)
        # The largest lag of the loop at each beat.
        self._lags: deque[float] = deque(maxlen=_BEATS)

    async def run(self) -> None:
        """Write until cancelled."""
        loop = asyncio.get_running_loop()
        if self._is_first:
            name = workers.name_of(self._port)
            self._notes.append(Note(monotonic(), "node", f"{name} {release.VERSION}"))
        while True:
            snapshot = self._snapshot()
            if self._snapshots:
                self._notes.extend(_happened(self._snapshots[-1], snapshot))
            self._snapshots.append(snapshot)
            await workers.beat(self._node.database, self._node.process, self._figures())
            if self._is_first:
                self._notes.extend(await self._conditions())
            if self._notes and await minutes.note(self._node.database, self._notes):
                self._notes.clear()
            due = loop.time() + INTERVAL
            await asyncio.sleep(INTERVAL)
            self._lags.append(loop.time() - due)

    async def _conditions(self) -> list[Note]:
        """Return what is wrong with the database, and the outage that has ended since."""
        node, now = self._node, monotonic()
        state = node.monitor.state
        found = []
        if state in monitor.TRANSIENT:
            found.append(_UNAVAILABLE)
        elif state not in monitor.SERVING:
            found.append(f"database-{state.replace('_', '-')}")
        else:
            if await node.table_locks.oldest() is not None:
                found.append("table-locked")
            if node.overviews.lacks_standbys():
                found.append("standbys")
        notes = [Note(now, "condition", each) for each in found]
        began, ended = node.database.pool.availability.last_outage or (0.0, 0.0)
        if ended > self._outage_ended:
            self._outage_ended = ended
            steps = range(int(began), int(ended) + 1, 60)
            notes += [Note(at, "condition", _UNAVAILABLE) for at in (*steps, ended)]
        return notes

    def _figures(self) -> dict[str, float | int | None]:
        first, last = self._snapshots[0], self._snapshots[-1]
        seconds = max(last.at - first.at, 0.001)
        counts = [
            after - before
            for after, before in zip(_latencies(last), _latencies(first), strict=True)
        ]
        gauges = {name: series[0][1] for name, series in last.gauges.items() if series}
        failures = _total(last, "request errors") - _total(first, "request errors")
        return {
            "port": self._port,
            "requests": round(sum(counts) / seconds, 2),
            "errors": round(failures / seconds, 2),
            "p99": minutes.quantile(counts, _LATENCY),
            "processor": round(
                (_total(last, "processor") - _total(first, "processor")) / seconds, 3
            ),
            "memory": int(gauges.get("memory", 0)),
            "lag": round(max([*self._lags, gauges["loop lag"]]), 4),
            "connections": self._connections(),
            "database_connections": int(gauges["connections"]),
            "waiting": int(gauges["waiting receivers"]),
            **{name: _total(last, counter) - _total(first, counter) for name, counter in _COUNTED},
            **{
                name: gauges[gauge]
                for name, gauge in _OF_NODE
                if gauge in gauges and not isnan(gauges[gauge])
            },
        }


def _total(snapshot: Snapshot, counter: str) -> float:
    return sum(value for _, value in snapshot.counters[counter])


def _latencies(snapshot: Snapshot) -> list[int]:
    """Return the numbers of requests in each bucket of their duration."""
    found = [0] * (len(HISTOGRAMS["request"].buckets) + 1)
    for _, histogram in snapshot.histograms.get("request", []):
        found = [a + b for a, b in zip(found, histogram.counts, strict=True)]
    return found


def _happened(before: Snapshot, after: Snapshot) -> Iterator[Note]:
    """Yield the requests between two snapshots by duration, and the errors by code."""
    durations = zip(BOUNDS, _latencies(before), _latencies(after), strict=True)
    yield from (
        Note(after.at, "duration", bound, new - old) for bound, old, new in durations if new > old
    )
    errors = _errors(after)
    errors.subtract(_errors(before))
    yield from (Note(after.at, "error", code, number) for code, number in errors.items() if number)


def _errors(snapshot: Snapshot) -> Counter[str]:
    found: Counter[str] = Counter()
    for (_, code), number in snapshot.counters["request errors"]:
        found[code] += int(number)
    return found
