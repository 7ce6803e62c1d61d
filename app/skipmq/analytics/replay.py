"""Replays, which send settled messages again, exactly once for each replay.

The messages are first staged in a table, in order, with IDs derived from the replay's. A message is
sent and marked as sent in one transaction, so an interrupted replay can be resumed. Staged bodies
are removed when they are sent; the IDs stay, so a repetition sends nothing twice.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from time import monotonic, sleep
from typing import Any
from uuid import UUID, uuid5

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from skipmq.analytics.errors import ReplayError
from skipmq.analytics.postgres import replays
from skipmq.analytics.postgres.replays import Staged, State, Target
from skipmq.analytics.spark.outgoing import chunks
from skipmq.database.session import Session
from skipmq.protocol import limits
from skipmq.protocol.identity import QueueName

# The attribute with the source of a message: its queue and its message ID.
MARK = "skipmq.replayed_from"
# Limits of a chunk, which is staged or sent by one call.
CHUNK, _CHUNK_BYTES = 500, 8 << 20
# Each group takes a lock, and the server's lock table is limited.
_FIFO_CHUNK = 200
_IDS = UUID("5f0c6f0e-7d0b-4f0e-9a51-6b1f2f6f9b1c")


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


def target(sessions: Iterable[Session], queue: QueueName) -> tuple[Session, Target]:
    """Look the target queue up in these databases; return the one that has it, and the queue.

    Raises ReplayError if none has.
    """
    for session in sessions:
        if (target := replays.target(session, queue)) is not None:
            return session, target
    raise ReplayError(
        f"queue {queue.name} does not exist: create it with `skipmq queue create {queue.name}`"
    )


def stage(session: Session, replay: str, to: Target, messages: Iterable[Any]) -> State:
    """Stage the messages to send, in order; skip those that the replay already has.

    `messages` are rows of the history; those without a body are skipped. Raises ReplayError, and
    stages nothing, if a message is too large for the queue.
    """
    with session.transaction():
        other = replays.state(session, replay).target
        if other not in (None, to.name):
            raise ReplayError(f"the replay {replay} is to {other}: use another --id for this one")
        staged = (
            _staged(replay, to, place, row)
            for place, row in enumerate(messages)
            if row["body"] is not None
        )
        for chunk in chunks(staged, CHUNK, _CHUNK_BYTES):
            replays.stage(session, replay, to.name, chunk)
    return replays.state(session, replay)


def _staged(replay: str, to: Target, place: int, row: Any) -> Staged:
    source = f"{row['queue']}/{row['message_id']}"
    attributes = json.loads(row["attributes"] or "{}")
    attributes.pop(MARK, None)
    if len(attributes) < limits.MESSAGE_ATTRIBUTES:
        attributes[MARK] = {"DataType": "String", "StringValue": source}
    text = json.dumps(attributes, ensure_ascii=False)
    size = len(row["body"].encode()) + len(text.encode())
    if size > to.maximum_bytes:
        raise ReplayError(
            f"{source} has {size} bytes with the attribute {MARK}; {to.name} accepts"
            f" {to.maximum_bytes}: exclude it, or raise the queue's MaximumMessageSize"
        )
    return Staged(
        place,
        # The row's ID is unique in one database only, so the message ID is included.
        uuid5(_IDS, f"{replay}/{row['id']}/{row['message_id']}"),
        UUID(row["message_id"]),
        row["group_id"] or (row["queue"] if to.fifo else None),
        row["trace_header"],
        text,
        row["body"],
    )


def send(
    session: Session, replay: str, to: Target, staged: State, *, rate: int | None = None
) -> Iterator[int]:
    """Send the staged messages, and yield the size of each chunk that was sent.

    Uses one transaction, or with a `rate` (messages per second) one for each second, or one for
    each 200 messages of a FIFO queue with more groups than can be locked at once; the order of each
    group is kept. Raises ReplayError if the replay is already running, database.session.Error if
    the database rejects it.
    """
    if not replays.lock(session, replay):
        raise ReplayError(f"the replay {replay} is already running")
    separate = rate is not None or (to.fifo and staged.groups > _FIFO_CHUNK)
    chunk = min(_FIFO_CHUNK if to.fifo else CHUNK, rate or CHUNK)
    if not separate:
        with session.transaction():
            while sent := replays.send(session, replay, to, chunk):
                yield sent
        return
    started, done = monotonic(), 0
    while True:
        if rate is not None:
            sleep(max(started + done / rate - monotonic(), 0))
        # If the client dies, a transaction is rolled back; a single statement could still commit.
        with session.transaction():
            sent = replays.send(session, replay, to, chunk)
        if not sent:
            return
        done += sent
        yield sent
