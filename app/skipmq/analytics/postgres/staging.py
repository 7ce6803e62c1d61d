"""The SQL of Spark's sink and of replays: messages are staged, and sent as one batch."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from time import monotonic, sleep
from uuid import UUID

from skipmq.analytics.spark.outgoing import Outgoing, chunks
from skipmq.database.session import Session, one
from skipmq.protocol.identity import QueueName

# The limits of a batch in one transaction, its messages and its groups in a FIFO queue: each group
# takes a lock, and each statement one.
_WHOLE, GROUPS = 100_000, 200
_CHUNK, _CHUNK_BYTES = 500, 8 << 20
# Seconds between two looks at a queue that is full.
_PAUSE = 0.5
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
        self, session: Session, part: UUID, messages: Iterable[Outgoing]
    ) -> Iterator[tuple[int, str]]:
        """Stage messages; yield the places of those that the queue refuses, with the reasons."""
        for chunk in chunks(messages, _CHUNK, _CHUNK_BYTES):
            yield from session.execute(
                f"select place, reason from skipmq.stage_messages({_QUEUE}, p_part => %s,"
                " p_places => %s::bigint[], p_bodies => %s::text[], p_attributes => %s::text[],"
                " p_group_ids => %s::text[], p_deduplication_ids => %s::text[],"
                " p_delays => %s::integer[], p_trace_headers => %s::text[])",
                (*self._place, part, *map(list, zip(*chunk, strict=True))),
            ).fetchall()

    def deliver(  # noqa: PLR0913 - what is to be sent, and how fast.
        self,
        session: Session,
        parts: Sequence[UUID],
        count: int,
        groups: int,
        *,
        depth: int | None = None,
        rate: int | None = None,
    ) -> Iterator[int]:
        """Send the parts, which have `count` messages of `groups`; yield the size of each chunk.

        In one transaction, or in several where it is large, or waits while the queue has `depth`
        messages, or for a `rate` (messages per second).
        """
        whole = depth is None and rate is None and count <= _WHOLE and groups <= GROUPS
        chunk = min(GROUPS if groups > GROUPS else _CHUNK, rate or _CHUNK)
        started, done = monotonic(), 0
        with session.transaction() if whole else nullcontext():
            while (sent := self._send(session, parts, count, chunk, depth)) != 0:
                if sent is None:
                    sleep(_PAUSE)
                    continue
                yield sent
                done += sent
                if rate is not None:
                    sleep(max(started + done / rate - monotonic(), 0))

    def _send(
        self, session: Session, parts: Sequence[UUID], count: int, limit: int, depth: int | None
    ) -> int | None:
        """Send the next messages; return how many, 0 at the end, None while the queue is full."""
        (sent,) = one(
            session,
            f"select skipmq.send_staged({_QUEUE}, p_batch => %s, p_parts => %s,"
            " p_count => %s, p_limit => %s::integer, p_depth => %s)",
            *(*self._place, self.number, list(parts), count, limit, depth),
        )
        return sent  # type: ignore[no-any-return]

    def discard(self, session: Session, parts: Sequence[UUID]) -> None:
        """Delete the messages of parts that are not being sent."""
        session.execute(
            f"select skipmq.discard_staged({_QUEUE}, p_parts => %s)", (*self._place, list(parts))
        )


def has_queue(session: Session, queue: QueueName) -> bool:
    """Return whether a database has a queue."""
    found = session.execute(
        "select from skipmq_views.queue where account = %s and region = %s and queue = %s"
        " and retired_at is null",
        (queue.account, queue.region, queue.name),
    )
    return bool(found.rowcount)
