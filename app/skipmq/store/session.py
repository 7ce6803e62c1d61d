"""Connections that are watched, and a connection of its own for who listens or notifies."""

from collections.abc import Iterator, Sequence
from typing import Any, Self

import psycopg

from skipmq.store.outage import Outage
from skipmq.store.watchdog import Watchdog

# Names the place in the server whatever language its messages are in.
_SYNC_REP_WAIT = "SyncRepWaitForLSN"


class WatchedConnection(psycopg.Connection[Any]):
    """A connection that knows whether a commit on it was left without its standby's answer."""

    unreplicated = False

    @classmethod
    def connect(cls, conninfo: str = "", **parameters: Any) -> Self:
        """Return a new connection, which hears the server's notices.

        Raises psycopg.OperationalError.
        """
        connection = super().connect(conninfo, **parameters)
        connection.add_notice_handler(connection.hear)
        return connection

    def hear(self, notice: psycopg.errors.Diagnostic) -> None:
        """Note that the wait for a standby was cancelled: the commit then counts as a success."""
        if notice.source_function == _SYNC_REP_WAIT:
            self.unreplicated = True


class Session:
    """A connection outside the pool, in autocommit mode; for one thread."""

    def __init__(self, connection: WatchedConnection, watchdog: Watchdog, outage: Outage) -> None:
        self._connection = connection
        self._watchdog = watchdog
        self._outage = outage
        self._outages = outage.number

    @property
    def is_current(self) -> bool:
        """Tell whether it is open and the database never was away since.

        Without that a frozen server, or one that was replaced, is listened to for ever.
        """
        return not self._connection.closed and self._outages == self._outage.number

    def execute(self, query: str, parameters: Sequence[Any] | None = None) -> None:
        """Run a query without waiting longer than any statement may take.

        Raises psycopg.Error.
        """
        self._watchdog.begin(self._connection)
        try:
            self._connection.execute(query, parameters)
        finally:
            self._watchdog.end(self._connection)

    def notifications(self, timeout: float) -> Iterator[str]:
        """Give the payloads of the notifications that come within so many seconds.

        Raises psycopg.Error.
        """
        for notification in self._connection.notifies(timeout=timeout):
            yield notification.payload

    def close(self) -> None:
        """Close it."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
