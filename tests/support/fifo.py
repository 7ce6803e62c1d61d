"""The vocabulary of the tests of FIFO queues that talk SQL only."""

from collections.abc import Sequence
from itertools import count
from typing import Any, NamedTuple
from uuid import uuid4

import psycopg

from support.postgres import Connection
from support.sql import Queue, receipts

_number = count(1)


class Sent(NamedTuple):
    message_id: str
    sequence_number: int


class FifoQueue(Queue):
    """A FIFO queue on a connection; messages are written `group:body`."""

    def __init__(
        self, connection: Connection, name: str = "orders.fifo", **attributes: Any
    ) -> None:
        super().__init__(connection, name, **attributes)

    def put(self, *messages: str, ids: Sequence[str] | None = None) -> list[Sent]:
        """Send messages, each under a deduplication id of its own unless some are given."""
        pairs = [message.split(":", 1) for message in messages]
        rows = self.connection.execute(
            "select message_id::text, sequence_number from skipmq.send_fifo_messages"
            "(%s, %s::uuid[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[],"
            " 'tester')",
            (
                self.id,
                [str(uuid4()) for _ in pairs],
                [body for _, body in pairs],
                [None] * len(pairs),
                [group for group, _ in pairs],
                ids or [f"id-{next(_number)}" for _ in pairs],
                [None] * len(pairs),
            ),
        ).fetchall()
        return [Sent(*row) for row in rows]

    def poll(
        self, limit: int = 10, timeout: int | None = None, attempt: str | None = None
    ) -> list[dict[str, Any]]:
        cursor = self.connection.cursor(row_factory=psycopg.rows.dict_row)
        if attempt is not None:
            return cursor.execute(
                "select * from skipmq.receive_fifo_attempt(%s, %s, %s::int, %s::int)",
                (self.id, attempt, limit, timeout),
            ).fetchall()
        return cursor.execute(
            "select * from skipmq.receive_fifo_messages(%s, %s::int, %s::int)",
            (self.id, limit, timeout),
        ).fetchall()

    def take(self, limit: int = 10, timeout: int | None = None) -> list[str]:
        """Receive; return `group:body` of each message."""
        return [f"{row['group_id']}:{row['body']}" for row in self.receive(limit, timeout)]

    def outcomes(self, *received: dict[str, Any]) -> list[str]:
        """Delete what was received; return what became of each."""
        rows = self.connection.execute(
            "select outcome"
            " from skipmq.delete_fifo_messages(%s, %s::bigint[], %s::int[], %s::uuid[])",
            (self.id, *receipts(received)),
        ).fetchall()
        return [outcome for (outcome,) in rows]

    def delete(self, *received: dict[str, Any]) -> int:
        return self.outcomes(*received).count("deleted")

    def hide(self, timeout: int, *received: dict[str, Any]) -> list[str]:
        rows = self.connection.execute(
            "select outcome from skipmq.change_fifo_visibility"
            "(%s, %s::bigint[], %s::int[], %s::uuid[], %s::timestamptz[], %s::int[])",
            (
                self.id,
                *receipts(received),
                [r["received_at"] for r in received],
                [timeout] * len(received),
            ),
        ).fetchall()
        return [outcome for (outcome,) in rows]

    def groups(self) -> int:
        """Return how many rows of groups the queue has."""
        row = self.connection.execute(
            "select count(*) from skipmq.message_group where queue_id = %s", (self.id,)
        ).fetchone()
        assert row is not None
        return int(row[0])
