"""The SQL of Spark's sink: messages are staged by tasks, and sent as one batch by the driver."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from skipmq.analytics.spark.outgoing import Outgoing
from skipmq.database.session import Session
from skipmq.protocol.identity import QueueName

_QUEUE = "p_queue => %s, p_stream => %s, p_account => %s, p_region => %s"


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of a stream to a queue; a `number` of None is the only one, never repeated."""

    queue: QueueName
    stream: str
    number: int | None

    @property
    def _place(self) -> tuple[str, str, str, str]:
        return self.queue.name, self.stream, self.queue.account, self.queue.region

    def stage(
        self, session: Session, part: UUID, messages: Sequence[Outgoing]
    ) -> list[tuple[int, str]]:
        """Stage messages; return the places of those that the queue refuses, with the reasons."""
        return session.execute(
            f"select place, reason from skipmq.stage_messages({_QUEUE}, p_part => %s,"
            " p_places => %s::bigint[], p_bodies => %s::text[], p_attributes => %s::text[],"
            " p_group_ids => %s::text[], p_deduplication_ids => %s::text[],"
            " p_delays => %s::integer[], p_trace_headers => %s::text[])",
            (*self._place, part, *map(list, zip(*messages, strict=True))),
        ).fetchall()

    def send(
        self, session: Session, parts: Sequence[UUID], count: int, limit: int, depth: int | None
    ) -> int | None:
        """Send the next messages of the parts, which have `count`; return how many, 0 at the end.

        Returns None without sending while the queue has `depth` messages.
        """
        row = session.execute(
            f"select skipmq.send_staged({_QUEUE}, p_batch => %s, p_parts => %s,"
            " p_count => %s, p_limit => %s::integer, p_depth => %s)",
            (*self._place, self.number, list(parts), count, limit, depth),
        ).fetchone()
        assert row is not None
        return row[0]  # type: ignore[no-any-return]

    def discard(self, session: Session, parts: Sequence[UUID]) -> None:
        """Delete the messages of parts that are not being sent."""
        session.execute(
            f"select skipmq.discard_staged({_QUEUE}, p_parts => %s)", (*self._place, list(parts))
        )
