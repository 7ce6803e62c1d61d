"""The heartbeat of a worker: its figures of the last minute, for the console and ListNodes."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from math import isnan

from skipmq.broker import workers
from skipmq.broker.node import Node
from skipmq.telemetry.metrics import HISTOGRAMS, Snapshot

INTERVAL = 5.0
# Beats in the minute over which rates and latencies are measured.
_BEATS = 12
_LATENCY = 0.99
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
    ) -> None:
        self._node, self._snapshot, self._connections = node, snapshot, connections
        self._snapshots: deque[Snapshot] = deque(maxlen=_BEATS + 1)
        # The largest lag of the loop at each beat.
        self._lags: deque[float] = deque(maxlen=_BEATS)

    async def run(self) -> None:
        """Write until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            self._snapshots.append(self._snapshot())
            await workers.beat(self._node.database, self._node.process, self._figures())
            due = loop.time() + INTERVAL
            await asyncio.sleep(INTERVAL)
            self._lags.append(loop.time() - due)

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
            "requests": round(sum(counts) / seconds, 2),
            "errors": round(failures / seconds, 2),
            "p99": _quantile(counts),
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


def _quantile(counts: Iterable[int]) -> float | None:
    """Return the upper bound of the bucket of the slowest hundredth; the largest for the last."""
    numbers = [*counts]
    rest = _LATENCY * sum(numbers)
    if not rest:
        return None
    bounds = [*HISTOGRAMS["request"].buckets, HISTOGRAMS["request"].buckets[-1]]
    for bound, number in zip(bounds, numbers, strict=True):
        rest -= number
        if rest <= 0:
            return bound
    return bounds[-1]
