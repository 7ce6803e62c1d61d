"""The database's clock as a test moves it under a node that runs."""

from collections.abc import Iterable
from time import monotonic
from typing import Any

import psycopg
from psycopg import sql

from support.http import eventually
from support.postgres import Connection

# What a request may take, in seconds: a model that was told of it later than that knows too little.
PATIENCE = 15.0
# Shorter moves could not be told from a node that is slow.
LEAST_MOVE = 5.0


class MovedClock:
    """The clock of a server whose only node is its owner's and has one connection.

    It is moved for all sessions of the server, and only ever on.
    """

    def __init__(self, connection: Connection, sqs: Any) -> None:
        self._connection = connection
        self._sqs = sqs
        attributes = {"MessageRetentionPeriod": "60", "VisibilityTimeout": "43200"}
        self._probe = sqs.create_queue(QueueName="clock", Attributes=attributes)["QueueUrl"]
        self._offset = self._base = self._read_at = 0.0
        self._read()

    def now(self) -> float:
        """Return the time of the database, in seconds since the epoch."""
        return self._base + monotonic() - self._read_at

    def move(self, seconds: float) -> None:
        """Move the clock on by at least so much; return when the node goes by it."""
        self._offset += max(seconds, LEAST_MOVE)
        setting = sql.Literal(f"{self._offset} s")
        self._connection.execute(
            sql.SQL("alter system set skipmq.clock_offset = {}").format(setting)
        )
        self._connection.execute("select pg_reload_conf()")
        self._read()
        eventually(self._node_agrees, why="the node goes by the new time")

    def keep_clear(self, moments: Iterable[float]) -> None:
        """Move on past moments that a request sent now could meet, before or after."""
        now = self.now()
        end = now
        for moment in sorted(moments):
            if now - 0.2 < moment < end + 2 * PATIENCE:
                end = moment + 1
        if end > now:
            self.move(end - now)

    def _read(self) -> None:
        # Before, so that the time after a request is never earlier than the broker's within it.
        self._read_at = monotonic()
        row = self._connection.execute("select extract(epoch from clock_timestamp())").fetchone()
        assert row is not None
        self._base = float(row[0]) + self._offset

    def _node_agrees(self) -> bool:
        begun = self.now()
        self._sqs.send_message(QueueUrl=self._probe, MessageBody="now")
        answer = self._sqs.receive_message(
            QueueUrl=self._probe, MaxNumberOfMessages=10, AttributeNames=["SentTimestamp"]
        )
        sent = [int(m["Attributes"]["SentTimestamp"]) / 1000 for m in answer.get("Messages", [])]
        return any(moment > begun - 0.1 for moment in sent)


def connect(url: str) -> Connection:
    """Return a connection of the owner."""
    return psycopg.connect(url, autocommit=True)
