"""The metrics of a node's process, in memory.

The hot path adds to plain numbers. In a node of several processes each writes its metrics twice a
second to a shared folder (metrics_folder.py), and the process that serves a scrape merges them
(exposition.py).
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
    """A metric; `merge` is how the values of several processes are merged."""

    name: str
    about: str
    labels: tuple[str, ...] = ()
    merge: Merge = "sum"
    buckets: tuple[float, ...] = ()


_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0)
_NUMBERS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0)
COUNTERS = {
    "database outages": Definition(
        "skipmq_database_outages", "Times that the database became unavailable for writes"
    ),
    "standbys outages": Definition(
        "skipmq_standbys_outages", "Times that too few standbys confirmed commits"
    ),
    "tables outages": Definition(
        "skipmq_tables_outages", "Times that another session locked a table of messages"
    ),
    "parked": Definition(
        "skipmq_parked",
        "Transactions (of one request or several) that waited for a database, standby or lock",
    ),
    "retried": Definition("skipmq_retried", "Statements retried after a connection failure"),
    "unknown": Definition("skipmq_outcome_unknown", "Statements whose outcome is unknown"),
    "cut": Definition(
        "skipmq_database_deadlines", "Connections closed because a statement timed out"
    ),
    "searches cut": Definition(
        "skipmq_search_deadlines", "Searches and statistics queries that timed out"
    ),
    "undelivered": Definition(
        "skipmq_undelivered_notifications",
        "Messages of topics that a queue or address did not take, by what became of them",
        ("outcome",),
    ),
    "refused": Definition("skipmq_refused", "Requests refused because the node was overloaded"),
    "request errors": Definition(
        "skipmq_request_errors", "Requests that returned an error, by its code", ("action", "code")
    ),
    "refusals": Definition(
        "skipmq_requests_denied",
        "Requests refused for their caller's key or rights, or a missing queue",
        ("queue", "caller", "error"),
    ),
    "request bytes": Definition(
        "skipmq_request_bytes", "Bytes of the bodies of requests", ("action",)
    ),
    "response bytes": Definition(
        "skipmq_response_bytes", "Bytes of the bodies of responses", ("action",)
    ),
    "processor": Definition("skipmq_cpu_seconds", "CPU time of the node's processes"),
    "snapshots ended": Definition(
        "skipmq_snapshots_ended",
        "Sessions terminated because they held a snapshot for too long",
    ),
    "upkeep": Definition(
        "skipmq_upkeep", "Rows or objects processed by this node's janitor, by task", ("task",)
    ),
}
HISTOGRAMS = {
    "request": Definition(
        "skipmq_request_duration_seconds",
        "Duration of requests without a receiver's wait for messages",
        ("action",),
        buckets=_SECONDS,
    ),
    "transaction": Definition(
        "skipmq_transaction_duration_seconds",
        "Duration of the node's transactions in the database",
        buckets=_SECONDS,
    ),
    "connection wait": Definition(
        "skipmq_connection_wait_seconds",
        "Time that transactions waited for a database connection",
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
        "skipmq_database_available", "Whether the database accepts writes", merge="min"
    ),
    "partition available": Definition(
        "skipmq_partition_available",
        "Whether a partition behind the router accepts writes",
        ("partition",),
        "min",
    ),
    "database state": Definition(
        "skipmq_database_state",
        "1 for the state of the database as a worker of this node sees it, 0 for the others",
        ("state",),
        "max",
    ),
    "standbys available": Definition(
        "skipmq_standbys_available", "Whether enough standbys confirm commits", merge="min"
    ),
    "tables available": Definition(
        "skipmq_tables_available", "Whether no other session locks a table of messages", merge="min"
    ),
    "table lock": Definition(
        "skipmq_table_lock_seconds",
        "Age of a transaction that holds a conflicting table lock, by its session",
        ("session",),
        "max",
    ),
    "waiting for tables": Definition(
        "skipmq_waiting_for_tables", "Transactions that wait for a table lock"
    ),
    "waiting for database": Definition(
        "skipmq_waiting_for_database", "Transactions that wait for the database"
    ),
    "waiting for standbys": Definition(
        "skipmq_waiting_for_standbys", "Transactions that wait for a standby"
    ),
    "waiting receivers": Definition(
        "skipmq_waiting_receivers", "Receivers that wait for a message"
    ),
    "requests": Definition("skipmq_requests", "Requests in progress"),
    "connections": Definition("skipmq_database_connections", "Open connections of the pool"),
    "waiting for connections": Definition(
        "skipmq_waiting_for_connections", "Transactions that wait for a connection"
    ),
    "cached queues": Definition("skipmq_cached_queues", "Queues in the caches of workers"),
    "workers": Definition("skipmq_workers", "Worker processes of the node"),
    "memory": Definition("skipmq_resident_memory_bytes", "Resident memory of the node's processes"),
    "loop lag": Definition(
        "skipmq_event_loop_lag_seconds",
        "Lag of a worker's event loop, measured four times a second",
        merge="max",
    ),
    # The janitor reads the following from the database.
    "standby lag": Definition(
        "skipmq_standby_lag_seconds", "Replay lag of a standby", ("standby",)
    ),
    "standby lag bytes": Definition(
        "skipmq_standby_lag_bytes", "WAL that a standby has not replayed", ("standby",)
    ),
    "oldest xmin": Definition(
        "skipmq_oldest_xmin_transactions", "Age in transactions of the oldest xmin"
    ),
    "wal bytes": Definition("skipmq_wal_bytes", "WAL written since the cluster was created"),
    "database bytes": Definition("skipmq_database_bytes", "Size of the database"),
    "free bytes": Definition(
        "skipmq_server_free_bytes",
        "Free bytes of the disk of a database server that is on the node's machine",
    ),
    "table bytes": Definition("skipmq_table_bytes", "Size of a table with its indexes", ("table",)),
    "frozen age": Definition(
        "skipmq_frozen_age_transactions", "Age in transactions of the oldest unfrozen row"
    ),
    "counted age": Definition(
        "skipmq_counts_age_seconds", "Time since a node last added up the changes of all counts"
    ),
    "tasks": Definition(
        "skipmq_tasks", "Tasks of queues that run, or that failed within a day", ("state",)
    ),
    "staged messages": Definition(
        "skipmq_staged_messages",
        "Messages that Spark or a replay staged more than an hour ago and has not sent",
        ("queue",),
    ),
    "damaged pages": Definition(
        "skipmq_damaged_pages",
        "Damaged pages that nodes met and that are not repaired",
        ("relation",),
    ),
    "sessions": Definition("skipmq_server_sessions", "Sessions of the database server"),
    "most sessions": Definition(
        "skipmq_server_sessions_limit",
        "Sessions that roles without privileges may have on the database server",
    ),
    "live rows": Definition("skipmq_table_live_rows", "Live rows, estimated", ("table",)),
    "dead rows": Definition("skipmq_table_dead_rows", "Dead rows, estimated", ("table",)),
    "oldest snapshot": Definition(
        "skipmq_oldest_snapshot_seconds",
        "Age of the oldest transaction that keeps vacuum from removing dead rows",
    ),
    "snapshot holder": Definition(
        "skipmq_snapshot_holder_seconds",
        "Age of that transaction from a minute on, by its session",
        ("session",),
    ),
    "unarchived days": Definition(
        "skipmq_history_days_unarchived",
        "Days of history past their retention that are kept because they are not exported",
    ),
    "certificate ends": Definition(
        "skipmq_certificate_ends_timestamp_seconds",
        "Expiry of the node's TLS certificate in seconds since 1970",
    ),
    "clock skew": Definition(
        "skipmq_clock_skew_seconds",
        "Seconds by which the clock of the node's machine is ahead of the database's",
    ),
}
_JANITOR_ONLY = {"oldest snapshot", "snapshots ended"}
# Without a series until there is something to measure.
_UNSET = {
    "oldest xmin", "wal bytes", "database bytes", "free bytes", "frozen age", "sessions",
    "most sessions",
    "counted age", "unarchived days", "certificate ends", "clock skew", "memory",
}  # fmt: skip


class Exemplar(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An example of a bucket's values: the request's ID and its value."""

    request_id: str
    value: float


class Histogram(msgspec.Struct):
    """The number of values in each bucket, the last of which is unbounded, and their sum."""

    counts: list[int]
    total: float = 0.0
    # The most recent exemplar of each bucket.
    exemplars: dict[int, Exemplar] = msgspec.field(default_factory=dict)

    def copy(self) -> "Histogram":
        """Return a copy that another thread can read."""
        return Histogram([*self.counts], self.total, {**self.exemplars})


# Label values and the value of the series.
Series = list[tuple[tuple[str, ...], float]]


class Snapshot(msgspec.Struct):
    """The metrics of a process; `at` is in seconds of the machine's monotonic clock."""

    at: float
    counters: dict[str, Series]
    gauges: dict[str, Series]
    histograms: dict[str, list[tuple[tuple[str, ...], Histogram]]]


class Published(NamedTuple):
    """The metrics of a process, and whether the process is still running."""

    snapshot: Snapshot
    is_alive: bool = True


class Observer:
    """A receiver of metrics, each under the values of its labels; this one keeps none."""

    def count(self, event: str, labels: tuple[str, ...] = (), by: float = 1.0) -> None:
        """Increment a counter."""

    def show(self, state: str, value: float, labels: tuple[str, ...] = ()) -> None:
        """Set a gauge."""

    def forget(self, state: str) -> None:
        """Remove all values of a gauge."""

    def observe(self, event: str, value: float, labels: tuple[str, ...] = ()) -> None:
        """Add a value to a histogram."""

    def answered(
        self, labels: tuple[str, ...], seconds: float, request_id: str, received: int, sent: int
    ) -> None:
        """Add a request, with the bytes of its body and of its answer's."""


class Metrics(Observer):
    """The metrics of this process, which may run the janitor; for one event loop."""

    def __init__(self, *, janitor: bool = False) -> None:
        def initial(names: Mapping[str, Definition]) -> list[str]:
            return [
                name
                for name, definition in names.items()
                if not definition.labels
                and name not in _UNSET
                and (janitor or name not in _JANITOR_ONLY)
            ]

        self._counters: dict[str, defaultdict[tuple[str, ...], float]] = {
            name: defaultdict(float) for name in COUNTERS
        }
        self._gauges: dict[str, dict[tuple[str, ...], float]] = {name: {} for name in GAUGES}
        for name in initial(COUNTERS):
            self._counters[name][()] = 0.0
        for name in initial(GAUGES):
            self._gauges[name][()] = 0.0
        self._histograms: dict[str, dict[tuple[str, ...], Histogram]] = {
            name: {} for name in HISTOGRAMS
        }
        # What each request adds to.
        self._requests = self._histograms["request"]
        self._received = self._counters["request bytes"]
        self._sent = self._counters["response bytes"]
        self.show("workers", 1.0)

    def count(self, event: str, labels: tuple[str, ...] = (), by: float = 1.0) -> None:
        """Add to a counter; raise KeyError for an unknown one."""
        self._counters[event][labels] += by

    def show(self, state: str, value: float, labels: tuple[str, ...] = ()) -> None:
        """Set a gauge; raise KeyError for an unknown one."""
        self._gauges[state][labels] = value

    def forget(self, state: str) -> None:
        """Remove all series of a gauge."""
        self._gauges[state].clear()

    def observe(self, event: str, value: float, labels: tuple[str, ...] = ()) -> None:
        """Add a value to a histogram; raise KeyError for an unknown one."""
        histogram = self._histograms[event].get(labels) or self._new(event, labels)
        bucket = bisect_left(_BUCKETS[event], value)
        histogram.counts[bucket] += 1
        histogram.total += value

    def answered(
        self, labels: tuple[str, ...], seconds: float, request_id: str, received: int, sent: int
    ) -> None:
        """Add a request, with the bytes of its body and of its answer's."""
        histogram = self._requests.get(labels) or self._new("request", labels)
        bucket = bisect_left(_SECONDS, seconds)
        histogram.counts[bucket] += 1
        histogram.total += seconds
        histogram.exemplars[bucket] = Exemplar(request_id, seconds)
        self._received[labels] += received
        self._sent[labels] += sent

    def _new(self, event: str, labels: tuple[str, ...]) -> Histogram:
        histogram = Histogram([0] * (len(_BUCKETS[event]) + 1))
        self._histograms[event][labels] = histogram
        return histogram

    def snapshot(self) -> Snapshot:
        """Return a copy of the present metrics."""
        self._counters["processor"][()] = time.process_time()
        if (memory := _resident_bytes()) is not None:
            self._gauges["memory"][()] = memory
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


def _resident_bytes() -> float | None:
    """Return the resident memory of this process; None on systems without /proc."""
    try:
        pages = int(Path("/proc/self/statm").read_bytes().split()[1])
    except OSError:
        return None
    return float(pages * os.sysconf("SC_PAGE_SIZE"))
