"""What a node counts, for Prometheus: one view of all its processes.

Each process writes its numbers to a file of a folder that all of them share; whoever is asked adds
them up. Source: the Prometheus Python client, "Multiprocess Mode".
"""

import os
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

_COUNTED = {
    "database outages": ("skipmq_database_outages", "Times that no database could be written to"),
    "standbys outages": ("skipmq_standbys_outages", "Times that too few standbys acknowledged"),
    "parked": ("skipmq_parked", "Requests that waited for a database or a standby"),
    "retried": ("skipmq_retried", "Statements run again after the database went away"),
    "unknown": ("skipmq_outcome_unknown", "Statements given up that may have been done"),
    "cut": ("skipmq_database_deadlines", "Connections cut because a statement took too long"),
    "refused": ("skipmq_refused", "Requests refused because the node had too much to do"),
    "snapshots ended": (
        "skipmq_snapshots_ended",
        "Readers' sessions ended because they held a snapshot for too long",
    ),
}
_SHOWN = {
    "database available": (
        "skipmq_database_available", "Whether there is a database to write to", "livemin",
    ),
    "standbys available": (
        "skipmq_standbys_available", "Whether enough standbys acknowledge", "livemin",
    ),
    "waiting for database": (
        "skipmq_waiting_for_database", "Requests that wait for a database now", "livesum",
    ),
    "waiting for standbys": (
        "skipmq_waiting_for_standbys", "Requests that wait for a standby now", "livesum",
    ),
    "waiting receivers": (
        "skipmq_waiting_receivers", "Receivers that wait for a message now", "livesum",
    ),
    "loop lag": (
        "skipmq_event_loop_lag_seconds",
        "How late the event loop of a worker runs what is due, measured four times a second",
        "livemax",
    ),
}  # fmt: skip
_STATES = ("writable", "unreachable", "read_only", "disk_full", "no_privilege")
_SHOWN_BY_JANITOR = {
    "oldest snapshot": (
        "skipmq_oldest_snapshot_seconds",
        "Age of the oldest transaction that keeps the database from clearing up",
        "livemostrecent",
    ),
    "unarchived days": (
        "skipmq_history_days_unarchived",
        "Days of history past their retention and kept because no export has them",
        "livemostrecent",
    ),
    "certificate ends": (
        "skipmq_certificate_ends_timestamp_seconds",
        "When the certificate of the node's TLS ends, in seconds since 1970",
        "livemostrecent",
    ),
}


class Metrics:
    """The numbers of this process, a worker or the one with the janitor.

    `config.share_metrics` has named the folder before this module was imported.
    """

    content_type = "text/plain; version=0.0.4; charset=utf-8"

    def __init__(self, folder: Path, *, janitor: bool = False) -> None:
        self._folder = folder
        for file in folder.glob("*_*.db"):
            # Of a worker that was killed: its counters stay, what it showed goes.
            pid = file.stem.rpartition("_")[2]
            if pid.isdecimal() and not _lives(int(pid)):
                mark_process_dead(int(pid), str(folder))  # type: ignore[no-untyped-call]
        registry = CollectorRegistry()
        self._counters = {
            event: Counter(name, about, registry=registry)
            for event, (name, about) in _COUNTED.items()
        }
        self._gauges = {
            state: Gauge(name, about, registry=registry, multiprocess_mode=mode)  # type: ignore[arg-type]
            for state, (name, about, mode) in (_SHOWN_BY_JANITOR if janitor else _SHOWN).items()
        }
        if not janitor:
            states = Gauge(
                "skipmq_database_state",
                "1 for what a worker of this node can do with its database, 0 for the rest",
                ["state"],
                registry=registry,
                multiprocess_mode="livemax",
            )
            self._gauges |= {f"database {state}": states.labels(state) for state in _STATES}

    def count(self, event: str) -> None:
        """Add one to the number of an event."""
        self._counters[event].inc()

    def show(self, state: str, value: float) -> None:
        """Set the value of a state."""
        self._gauges[state].set(value)

    def text(self) -> bytes:
        """Return the numbers of all workers in the text format of Prometheus."""
        registry = CollectorRegistry()
        _Collector(registry, path=str(self._folder))  # type: ignore[no-untyped-call]
        return generate_latest(registry)


class _Collector(MultiProcessCollector):
    """Leaves out a file that a process has made and not filled, or was killed before it could."""

    def collect(self) -> Any:
        filled = [str(file) for file in Path(self._path).glob("*.db") if _is_filled(file)]
        return self.merge(filled)  # type: ignore[no-untyped-call]


def _is_filled(file: Path) -> bool:
    try:
        return file.stat().st_size > 0
    except FileNotFoundError:  # Of a worker that was killed: taken away meanwhile.
        return False


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
