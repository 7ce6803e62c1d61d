"""What a process of a node counts and shows, in memory.

The hot path adds to plain numbers. Where a node has several processes each writes its own twice a
second to a file of a folder that all of them share (metrics_folder.py); the one that is asked for
metrics adds them up (exposition.py).
"""

import os
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

Merge = Literal["sum", "min", "max"]


class Definition(NamedTuple):
    """A metric; `merge` is how the values of several processes become one."""

    name: str
    about: str
    labels: tuple[str, ...] = ()
    merge: Merge = "sum"
    buckets: tuple[float, ...] = ()


_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0)
_NUMBERS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0)
COUNTERS = {
    "database outages": Definition(
        "skipmq_database_outages", "Times that no database could be written to"
    ),
    "standbys outages": Definition(
        "skipmq_standbys_outages", "Times that too few standbys acknowledged"
    ),
    "tables outages": Definition(
        "skipmq_tables_outages", "Times that another program locked a table of messages"
    ),
    "parked": Definition(
        "skipmq_parked",
        "Transactions (of one request or several) that waited for a database, standby or lock",
    ),
    "retried": Definition("skipmq_retried", "Statements run again after the database went away"),
    "unknown": Definition("skipmq_outcome_unknown", "Statements given up that may have been done"),
    "cut": Definition(
        "skipmq_database_deadlines", "Connections cut because a statement took too long"
    ),
    "searches cut": Definition(
        "skipmq_search_deadlines", "Reads of operators and metrics given up as they took too long"
    ),
    "refused": Definition("skipmq_refused", "Requests refused because the node had too much to do"),
    "request errors": Definition(
        "skipmq_request_errors", "Requests that got an error, by its code", ("action", "code")
    ),
    "request bytes": Definition(
        "skipmq_request_bytes", "Bytes of the bodies of requests", ("action",)
    ),
    "response bytes": Definition(
        "skipmq_response_bytes", "Bytes of the bodies of responses", ("action",)
    ),
    "processor": Definition("skipmq_cpu_seconds", "Processor time of the node's processes"),
    "snapshots ended": Definition(
        "skipmq_snapshots_ended",
        "Readers' sessions ended because they held a snapshot for too long",
    ),
    "upkeep": Definition("skipmq_upkeep", "What the janitor of this node did, by task", ("task",)),
}
HISTOGRAMS = {
    "request": Definition(
        "skipmq_request_duration_seconds",
        "How long requests took, without what a receiver waited for messages",
        ("action",),
        buckets=_SECONDS,
    ),
    "transaction": Definition(
        "skipmq_transaction_duration_seconds",
        "How long transactions of the node took in the database",
        buckets=_SECONDS,
    ),
    "connection wait": Definition(
        "skipmq_connection_wait_seconds",
        "How long transactions waited for a database connection",
        buckets=_SECONDS,
    ),
    "group": Definition(
        "skipmq_group_requests",
        "Requests that shared a transaction, by operation",
        ("operation",),
        buckets=_NUMBERS,
    ),
}
_BUCKETS = {name: definition.buckets for name, definition in HISTOGRAMS.items()}
GAUGES = {
    "database available": Definition(
        "skipmq_database_available", "Whether there is a database to write to", merge="min"
    ),
    "database state": Definition(
        "skipmq_database_state",
        "1 for what a worker of this node can do with its database, 0 for the rest",
        ("state",),
        "max",
    ),
    "standbys available": Definition(
        "skipmq_standbys_available", "Whether enough standbys acknowledge", merge="min"
    ),
    "tables available": Definition(
        "skipmq_tables_available", "Whether no other program locks a table of messages", merge="min"
    ),
    "table lock": Definition(
        "skipmq_table_lock_seconds",
        "Age of a transaction that locks a table against the node, by its session",
        ("session",),
        "max",
    ),
    "waiting for tables": Definition(
        "skipmq_waiting_for_tables", "Transactions that wait for such a lock now"
    ),
    "waiting for database": Definition(
        "skipmq_waiting_for_database", "Transactions that wait for a database now"
    ),
    "waiting for standbys": Definition(
        "skipmq_waiting_for_standbys", "Transactions that wait for a standby now"
    ),
    "waiting receivers": Definition(
        "skipmq_waiting_receivers", "Receivers that wait for a message now"
    ),
    "requests": Definition("skipmq_requests", "Requests that the node is at now"),
    "connections": Definition(
        "skipmq_database_connections", "Connections of the pool that are open"
    ),
    "waiting for connections": Definition(
        "skipmq_waiting_for_connections", "Transactions that wait for a connection now"
    ),
    "cached queues": Definition("skipmq_cached_queues", "Queues that workers have looked up"),
    "workers": Definition("skipmq_workers", "Worker processes of the node"),
    "memory": Definition("skipmq_resident_memory_bytes", "Memory of the node's processes"),
    "loop lag": Definition(
        "skipmq_event_loop_lag_seconds",
        "How late the event loop of a worker runs what is due, measured four times a second",
        merge="max",
    ),
    # Of the process that has the janitor: what it finds in the database.
    "standby lag": Definition(
        "skipmq_standby_lag_seconds", "How far a standby is behind, as it says", ("standby",)
    ),
    "standby lag bytes": Definition(
        "skipmq_standby_lag_bytes", "WAL that a standby has not applied", ("standby",)
    ),
    "oldest xmin": Definition(
        "skipmq_oldest_xmin_transactions", "Transactions since the oldest that sees dead rows"
    ),
    "wal bytes": Definition("skipmq_wal_bytes", "WAL that was ever written"),
    "database bytes": Definition("skipmq_database_bytes", "Size of the database"),
    "table bytes": Definition("skipmq_table_bytes", "Size of a table with its indexes", ("table",)),
    "frozen age": Definition(
        "skipmq_frozen_age_transactions", "Transactions since the oldest that is not frozen"
    ),
    "sessions": Definition("skipmq_server_sessions", "Sessions of the server"),
    "most sessions": Definition("skipmq_server_sessions_limit", "Sessions that it may have"),
    "live rows": Definition("skipmq_table_live_rows", "Rows, as estimated", ("table",)),
    "dead rows": Definition(
        "skipmq_table_dead_rows", "Rows that vacuum has to clear, as estimated", ("table",)
    ),
    "oldest snapshot": Definition(
        "skipmq_oldest_snapshot_seconds",
        "Age of the oldest transaction that keeps the database from clearing up",
    ),
    "snapshot holder": Definition(
        "skipmq_snapshot_holder_seconds",
        "Age of that transaction from a minute on, by its session",
        ("session",),
    ),
    "unarchived days": Definition(
        "skipmq_history_days_unarchived",
        "Days of history past their retention and kept because no export has them",
    ),
    "certificate ends": Definition(
        "skipmq_certificate_ends_timestamp_seconds",
        "When the certificate of the node's TLS ends, in seconds since 1970",
    ),
}
_OF_JANITOR = {"oldest snapshot", "unarchived days", "certificate ends", "snapshots ended"}
# Not there before they are known.
_FOUND = {
    "oldest xmin", "wal bytes", "database bytes", "frozen age", "sessions", "most sessions",
}  # fmt: skip


class Exemplar(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A request that was counted: its id and its value."""

    request_id: str
    value: float


class Histogram(msgspec.Struct):
    """How many values fell into each bucket, the last of which has no end, and their sum."""

    counts: list[int]
    total: float = 0.0
    # By bucket: the last of it.
    exemplars: dict[int, Exemplar] = msgspec.field(default_factory=dict)

    def copy(self) -> "Histogram":
        """Return what is so now, for another thread."""
        return Histogram([*self.counts], self.total, {**self.exemplars})


# The values of the labels with what they count.
Series = list[tuple[tuple[str, ...], float]]


class Snapshot(msgspec.Struct):
    """The metrics of a process at a time, in seconds of the machine's monotonic clock."""

    at: float
    counters: dict[str, Series]
    gauges: dict[str, Series]
    histograms: dict[str, list[tuple[tuple[str, ...], Histogram]]]


class Published(NamedTuple):
    """The metrics of a process, and whether it is still there."""

    snapshot: Snapshot
    is_alive: bool = True


class Metrics:
    """The numbers of this process, which may have the janitor; for one loop."""

    def __init__(self, *, janitor: bool = False) -> None:
        def own(names: Mapping[str, Definition]) -> list[str]:
            return [
                name
                for name, definition in names.items()
                if not definition.labels
                and name not in _FOUND
                and (janitor or name not in _OF_JANITOR)
            ]

        # A name that is none of these raises KeyError.
        self._counters: dict[str, defaultdict[tuple[str, ...], float]] = {
            name: defaultdict(float) for name in COUNTERS
        }
        self._gauges: dict[str, dict[tuple[str, ...], float]] = {name: {} for name in GAUGES}
        for name in own(COUNTERS):
            self._counters[name][()] = 0.0
        for name in own(GAUGES):
            self._gauges[name][()] = 0.0
        self._histograms: dict[str, dict[tuple[str, ...], Histogram]] = {
            name: {} for name in HISTOGRAMS
        }
        self.show("workers", 1.0)

    def count(self, event: str, labels: tuple[str, ...] = (), by: float = 1.0) -> None:
        """Add to the number of an event."""
        self._counters[event][labels] += by

    def show(self, state: str, value: float, labels: tuple[str, ...] = ()) -> None:
        """Set the value of a state."""
        self._gauges[state][labels] = value

    def forget(self, state: str) -> None:
        """Forget all values of a state."""
        self._gauges[state].clear()

    def observe(
        self, event: str, value: float, labels: tuple[str, ...] = (), request_id: str = ""
    ) -> None:
        """Add a value to a distribution."""
        series, buckets = self._histograms[event], _BUCKETS[event]
        histogram = series.get(labels)
        if histogram is None:
            histogram = series[labels] = Histogram([0] * (len(buckets) + 1))
        place = bisect_left(buckets, value)
        histogram.counts[place] += 1
        histogram.total += value
        if request_id:
            histogram.exemplars[place] = Exemplar(request_id, value)

    def snapshot(self) -> Snapshot:
        """Return the metrics as they are now."""
        self._counters["processor"][()] = time.process_time()
        self._gauges["memory"][()] = _resident_bytes()
        return Snapshot(
            time.monotonic(),
            {name: [*series.items()] for name, series in self._counters.items()},
            {name: [*series.items()] for name, series in self._gauges.items()},
            {
                name: [(labels, histogram.copy()) for labels, histogram in series.items()]
                for name, series in self._histograms.items()
                if series
            },
        )


def _resident_bytes() -> float:
    """Return the memory of this process; 0 where there is no /proc."""
    try:
        pages = int(Path("/proc/self/statm").read_bytes().split()[1])
    except OSError:
        return 0.0
    return float(pages * os.sysconf("SC_PAGE_SIZE"))
