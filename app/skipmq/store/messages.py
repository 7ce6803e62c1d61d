"""Messages: send, receive, delete, change visibility, on standard and on FIFO queues."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from skipmq.model import (
    MessageCounts,
    OutgoingMessage,
    Queue,
    ReceivedMessage,
    Reception,
    StoredMessage,
)
from skipmq.receipts import Receipt
from skipmq.store.engine import Database

# What is lost with a crash of the database after such a commit is only ever delivered again.
_LAX = "off"
_DURABLE = "on"
# Named one by one: the function of the next release may give more.
_RECEIVED = (
    "id, receive_count, received_at, message_id, body, attributes, approximate_receive_count,"
    " sent_at, first_received_at, group_id, sender, trace_header, dead_letter_source"
)
_RECEIVED_FIFO = f"{_RECEIVED}, sequence_number, deduplication_id"
_RECEIVE = (
    f"select {_RECEIVED}, next_visible_in"  # noqa: S608
    " from skipmq.receive_messages(%s, %s::int, %s::int, %s)"
)
_RECEIVE_FIFO = (
    f"select {_RECEIVED_FIFO}, next_visible_in"  # noqa: S608
    " from skipmq.receive_fifo_messages(%s, %s::int, %s::int, %s)"
)
_RECEIVE_ATTEMPT = (
    f"select {_RECEIVED_FIFO}, next_visible_in"  # noqa: S608
    " from skipmq.receive_fifo_attempt(%s, %s, %s::int, %s::int, %s)"
)


class Messages:
    """The message functions of the database.

    Each raises errors.QueueMoved when the queue was purged or deleted since it was looked up.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def send(
        self, queue: Queue, messages: Sequence[OutgoingMessage], sender: str
    ) -> list[StoredMessage]:
        """Store messages durably, all or none; return what to answer for each, in order.

        On a FIFO queue that is the answer to the first sending where the deduplication id is known.
        """
        if queue.fifo:
            return self._send_fifo(queue, messages, sender)
        self._database.rows(
            "select from skipmq.send_messages"
            "(%s, %s::uuid[], %s::text[], %s::text[], %s::int[], %s::text[], %s::text[], %s, %s)",
            (
                queue.id,
                [m.message_id for m in messages],
                [m.body for m in messages],
                [m.attributes for m in messages],
                [m.delay_seconds for m in messages],
                [m.group_id for m in messages],
                [m.trace_header for m in messages],
                sender,
                _DURABLE,
            ),
        )
        return [StoredMessage(m.message_id) for m in messages]

    def _send_fifo(
        self, queue: Queue, messages: Sequence[OutgoingMessage], sender: str
    ) -> list[StoredMessage]:
        rows = self._database.rows(
            "select message_id::text, sequence_number from skipmq.send_fifo_messages"
            "(%s, %s::uuid[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s, %s)"
            " order by place",
            (
                queue.id,
                [m.message_id for m in messages],
                [m.body for m in messages],
                [m.attributes for m in messages],
                [m.group_id for m in messages],
                [m.deduplication_id for m in messages],
                [m.trace_header for m in messages],
                sender,
                _DURABLE,
            ),
        )
        return [StoredMessage(*row) for row in rows]

    def receive(
        self,
        queue: Queue,
        limit: int,
        visibility_timeout: int | None,
        attempt: str | None = None,
    ) -> Reception:
        """Claim up to `limit` visible messages for so many seconds (None: the queue's timeout).

        With an `attempt`, on a FIFO queue, what it was given before if nobody has changed it.
        """
        rest = (limit, visibility_timeout, _LAX)
        if attempt is not None:
            rows = self._database.rows(_RECEIVE_ATTEMPT, (queue.id, attempt, *rest))
        else:
            rows = self._database.rows(_RECEIVE_FIFO if queue.fifo else _RECEIVE, (queue.id, *rest))
        if rows[0][0] is None:
            wait = rows[0][-1]
            return Reception([], None if wait is None else wait.total_seconds())
        return Reception([_received(row) for row in rows])

    def delete(self, queue: Queue, receipts: Sequence[Receipt]) -> list[str]:
        """Delete the messages that are still at the receive their receipt stands for.

        Returns each one's outcome in order; on a standard queue that is always the same.
        """
        parameters = (
            queue.id,
            [r.message for r in receipts],
            [r.receive_count for r in receipts],
        )
        if not queue.fifo:
            self._database.rows(
                "select skipmq.delete_messages(%s, %s::bigint[], %s::int[], %s)",
                (*parameters, _LAX),
            )
            return ["deleted"] * len(receipts)
        rows = self._database.rows(
            "select outcome from skipmq.delete_fifo_messages(%s, %s::bigint[], %s::int[], %s)"
            " order by place",
            (*parameters, _DURABLE),
        )
        return [outcome for (outcome,) in rows]

    def change_visibility(
        self, queue: Queue, receipts: Sequence[Receipt], timeouts: Sequence[int]
    ) -> list[str]:
        """Hide messages in flight for so many seconds; return each one's outcome in order."""
        function = "change_fifo_visibility" if queue.fifo else "change_visibility"
        rows = self._database.rows(
            f"select outcome from skipmq.{function}(%s, %s::bigint[], %s::int[],"  # noqa: S608
            " array(select 'epoch'::timestamptz + t * interval '1 microsecond'"
            " from unnest(%s::bigint[]) t), %s::int[], %s) order by place",
            (
                queue.id,
                [r.message for r in receipts],
                [r.receive_count for r in receipts],
                [r.received_at for r in receipts],
                list(timeouts),
                _LAX,
            ),
        )
        return [outcome for (outcome,) in rows]

    def count(self, queue_id: int) -> MessageCounts:
        """Count the messages of a queue."""
        rows = self._database.rows(
            "select visible, in_flight, delayed from skipmq.count_messages(%s)", (queue_id,)
        )
        return MessageCounts(*rows[0])

    def in_flight(self, queue_id: int, most: int) -> int:
        """Count the messages of a queue that are in flight, up to `most`."""
        rows = self._database.rows("select skipmq.count_in_flight(%s, %s::int)", (queue_id, most))
        return int(rows[0][0])


def _received(row: tuple[Any, ...]) -> ReceivedMessage:
    id_, count, received_at, message_id, body, attributes, approximate, sent_at, first = row[:9]
    return ReceivedMessage(
        id_,
        count,
        _microseconds(received_at),
        str(message_id),
        body,
        attributes,
        approximate,
        _microseconds(sent_at) // 1000,
        _microseconds(first) // 1000,
        *row[9:-1],
    )


def _microseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000)
