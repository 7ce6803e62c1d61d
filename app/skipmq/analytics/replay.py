"""Replays, which send settled messages again: each is one staged batch, whose ID is the replay's.

A batch is sent once. One that was interrupted continues with the messages that it began with, so
that a replay can be killed and repeated at any time.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from uuid import UUID, uuid4, uuid5

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from skipmq.analytics.errors import ReplayError
from skipmq.analytics.postgres.staging import Batch, has_queue
from skipmq.analytics.spark.outgoing import Outgoing
from skipmq.database.session import Session
from skipmq.protocol import limits
from skipmq.protocol.identity import QueueName

# The attribute with the source of a message: its queue and its message ID.
MARK = "skipmq.replayed_from"
_IDS = UUID("5f0c6f0e-7d0b-4f0e-9a51-6b1f2f6f9b1c")


class Staged(NamedTuple):
    """The messages that an attempt has staged, and their groups."""

    part: UUID
    rows: int
    groups: int


def selected(history: DataFrame, condition: str) -> DataFrame:
    """Return the messages that match an SQL condition, each once, in the order of sending.

    Of a message that was dead-lettered and settled again, the last row is returned.
    """
    matching = history.where(condition)
    last = matching.groupBy("id").agg(fn.max_by(fn.struct("*"), "settled_at").alias("row"))
    # IDs are assigned under the lock of a group, so they are in its order.
    return last.select("row.*").orderBy("id")


def overview(messages: DataFrame) -> list[Mapping[str, Any]]:
    """Return by queue and outcome: `messages`, `bytes`, `without_body`, `oldest`, `newest`."""
    size = fn.col("body_bytes") + fn.col("attribute_bytes")
    without: Column = fn.count(fn.when(fn.col("body").isNull(), 1))
    rows = (
        messages.groupBy("account", "region", "queue", "outcome")
        .agg(
            fn.count("*").alias("messages"),
            fn.sum(size).alias("bytes"),
            without.alias("without_body"),
            fn.min("sent_at").alias("oldest"),
            fn.max("sent_at").alias("newest"),
        )
        .orderBy("account", "region", "queue", "outcome")
        .collect()
    )
    return [row.asDict() for row in rows]


def target(sessions: Iterable[Session], queue: QueueName) -> Session:
    """Return the one of these databases that has the queue; raise ReplayError if none has."""
    for session in sessions:
        if has_queue(session, queue):
            return session
    raise ReplayError(
        f"queue {queue.name} does not exist: create it with `skipmq queue create {queue.name}`"
    )


def stage(session: Session, replay: str, to: QueueName, messages: Iterable[Any]) -> Staged:
    """Stage the messages to send, rows of the history, in order; skip those without a body.

    Raises ReplayError, and stages nothing, if the queue refuses one.
    """
    part, groups, sources = uuid4(), set[str | None](), list[str]()

    def outgoing() -> Iterator[Outgoing]:
        for row in messages:
            if row["body"] is not None:
                message = _message(replay, to, len(sources), row)
                groups.add(message.group_id)
                sources.append(f"{row['queue']}/{row['message_id']}")
                yield message

    with session.transaction():
        for place, reason in _batch(replay, to).stage(session, part, outgoing()):
            raise ReplayError(
                f"{sources[place]} is refused with the attribute {MARK}: {reason}. Exclude it, or"
                " change the queue"
            )
    return Staged(part, len(sources), len(groups - {None}))


def send(
    session: Session, replay: str, to: QueueName, staged: Staged, *, rate: int | None = None
) -> Iterator[int]:
    """Send the staged messages unless the replay was sent before; yield the size of each chunk.

    With a `rate` (messages per second) each chunk is a transaction.
    """
    batch = _batch(replay, to)
    return batch.deliver(session, [staged.part], staged.rows, staged.groups, rate=rate)


def _batch(replay: str, to: QueueName) -> Batch:
    return Batch(to, f"replay/{replay}", 0)


def _message(replay: str, to: QueueName, place: int, row: Any) -> Outgoing:
    attributes = json.loads(row["attributes"] or "{}")
    attributes.pop(MARK, None)
    if len(attributes) < limits.MESSAGE_ATTRIBUTES:
        source = f"{row['queue']}/{row['message_id']}"
        attributes[MARK] = {"DataType": "String", "StringValue": source}
    is_fifo = to.name.endswith(".fifo")
    # The row's ID is unique in one database only, so the message ID is included.
    own_id = str(uuid5(_IDS, f"{replay}/{row['id']}/{row['message_id']}")) if is_fifo else None
    return Outgoing(
        place, row["body"], json.dumps(attributes, ensure_ascii=False),
        row["group_id"] or (row["queue"] if is_fifo else None), own_id, None, row["trace_header"],
    )  # fmt: skip
