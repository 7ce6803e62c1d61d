"""A bound on how long the database may take to answer: then the connection is cut.

The kernel of a frozen machine still acknowledges what it is sent, so that no time-out of TCP ever
comes. And nothing is ever cancelled: a cancelled commit may count as done where no standby has it
(PostgreSQL manual, 27.2.8 "Synchronous Replication"; SyncRepWaitForLSN in syncrep.c).
"""

import os
import socket
import threading
from contextlib import suppress
from time import monotonic
from typing import Any

import psycopg


class Watchdog:
    """Cuts connections whose statement takes longer than `seconds`; safe for threads."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._began: dict[psycopg.Connection[Any], float] = {}
        self._watched = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, connection: psycopg.Connection[Any]) -> None:
        """Watch a connection that is about to run a statement."""
        self._began[connection] = monotonic()
        if not self._watched.is_set():
            self._watch()

    def end(self, connection: psycopg.Connection[Any]) -> bool:
        """Watch it no longer; tell whether it was cut."""
        with self._lock:
            return self._began.pop(connection, None) is None

    def _watch(self) -> None:
        with self._lock:
            self._watched.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        pause = threading.Event()
        while self._watched.wait():
            pause.wait(self._seconds / 8)
            with self._lock:
                late = monotonic() - self._seconds
                for connection in [c for c, began in [*self._began.items()] if began < late]:
                    del self._began[connection]
                    _cut(connection)
                if not self._began:
                    self._watched.clear()


def _cut(connection: psycopg.Connection[Any]) -> None:
    # A copy of the descriptor: the connection closes its own, once it notices.
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as own:
        own.shutdown(socket.SHUT_RDWR)
