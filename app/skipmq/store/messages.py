"""Messages of standard queues: send, receive, delete, change visibility."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from skipmq.model import MessageCounts, OutgoingMessage, ReceivedMessage, Reception
from skipmq.receipts import Receipt
from skipmq.store.engine import Database

# What is lost with a crash of the database after such a commit is only ever delivered again.
_LAX = "off"
# Named one by one: the function of the next release may give more.
_RECEIVED = (
    "id, receive_count, received_at, message_id, body, attributes, approximate_receive_count,"
    " sent_at, first_received_at, group_id, sender, trace_header,"
    " dead_letter_source, next_visible_in"
)


class Messages:
    """The message functions of the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def send(self, queue_id: int, messages: Sequence[OutgoingMessage], sender: str) -> None:
        """Store messages durably, all or none.

        Raises errors.QueueMoved when the queue was purged or deleted since it was looked up.
        """
        self._database.rows(
            "select from skipmq.send_messages"
            "(%s, %s::uuid[], %s::text[], %s::text[], %s::int[], %s::text[], %s::text[], %s, 'on')",
            (
                queue_id,
                [m.message_id for m in messages],
                [m.body for m in messages],
                [m.attributes for m in messages],
                [m.delay_seconds for m in messages],
                [m.group_id for m in messages],
                [m.trace_header for m in messages],
                sender,
            ),
        )

    def receive(self, queue_id: int, limit: int, visibility_timeout: int | None) -> Reception:
        """Claim up to `limit` visible messages for so many seconds (None: the queue's timeout).

        Raises errors.QueueMoved when the queue was purged or deleted since it was looked up.
        """
        rows = self._database.rows(
            f"select {_RECEIVED} from skipmq.receive_messages(%s, %s::int, %s::int, %s)",  # noqa: S608
            (queue_id, limit, visibility_timeout, _LAX),
        )
        if rows[0][0] is None:
            wait = rows[0][-1]
            return Reception([], None if wait is None else wait.total_seconds())
        return Reception([_received(row) for row in rows])

    def delete(self, queue_id: int, receipts: Sequence[Receipt]) -> None:
        """Delete the messages that are still at the receive their receipt stands for.

        Raises errors.QueueMoved when the queue was purged or deleted since it was looked up.
        """
        self._database.rows(
            "select skipmq.delete_messages(%s, %s::bigint[], %s::int[], %s)",
            (queue_id, [r.message for r in receipts], [r.receive_count for r in receipts], _LAX),
        )

    def change_visibility(
        self, queue_id: int, receipts: Sequence[Receipt], timeouts: Sequence[int]
    ) -> list[str]:
        """Hide messages in flight for so many seconds; return each one's outcome in order."""
        rows = self._database.rows(
            "select outcome from skipmq.change_visibility(%s, %s::bigint[], %s::int[],"
            " array(select 'epoch'::timestamptz + t * interval '1 microsecond'"
            " from unnest(%s::bigint[]) t), %s::int[], %s)",
            (
                queue_id,
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


def _received(row: tuple[Any, ...]) -> ReceivedMessage:
    (id_, count, received_at, message_id, body, attributes, approximate, sent_at, first, *rest) = (
        row
    )
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
        *rest[:4],
    )


def _microseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000)
