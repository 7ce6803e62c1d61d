"""Look at messages without receiving them; copy and move those that were picked out."""

from collections.abc import Sequence
from typing import Any

from skipmq.model import PeekedMessage, Queue
from skipmq.store.engine import Database


class Inspection:
    """The functions of the database beyond those of SQS.

    Each raises errors.QueueMoved when a queue was purged or deleted since it was looked up.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def peek(
        self, queue: Queue, state: str | None, limit: int, after: str | None
    ) -> list[PeekedMessage]:
        """Return up to `limit` messages from the place `after` on, of one state or of all."""
        rows = self._database.rows(
            "select place, id, state, extract(epoch from visible_in)::float8, message_id::text,"
            " body, attributes, approximate_receive_count,"
            " (extract(epoch from sent_at) * 1000)::bigint,"
            " (extract(epoch from first_received_at) * 1000)::bigint,"
            " group_id, sender, trace_header, dead_letter_source, sequence_number,"
            " deduplication_id from skipmq.peek_messages(%s, %s, %s::int, %s)",
            (queue.id, state, limit, after),
        )
        return [PeekedMessage(*row) for row in rows]

    def copy(self, queue: Queue, messages: Sequence[int], target: Queue, sender: str) -> list[str]:
        """Send copies of messages to another queue; return each one's outcome in order."""
        return self._outcomes(
            "copy_messages(%s, %s::bigint[], %s, %s)",
            (queue.id, list(messages), target.id, sender),
        )

    def move(self, queue: Queue, messages: Sequence[int], target: Queue) -> list[str]:
        """Move messages to another queue; return each one's outcome in order."""
        return self._outcomes(
            "move_messages(%s, %s::bigint[], %s)", (queue.id, list(messages), target.id)
        )

    def _outcomes(self, call: str, parameters: Sequence[Any]) -> list[str]:
        rows = self._database.rows(
            f"select outcome from skipmq.{call} order by place",  # noqa: S608
            parameters,
        )
        return [outcome for (outcome,) in rows]
