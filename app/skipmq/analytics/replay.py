"""Sending settled messages again: once for each replay, however often that is tried.

A replay is staged in a table first, the messages in order, each under an id that follows from the
replay's. Sending and marking as sent are one transaction, so that an interrupted replay goes on
where it was. What is sent loses its body there; the ids stay, so that a repetition sends nothing
twice.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from time import monotonic, sleep
from typing import Any
from uuid import UUID, uuid5

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from skipmq import limits
from skipmq.analytics.errors import ReplayError
from skipmq.analytics.postgres import replays
from skipmq.analytics.postgres.replays import Staged, State, Target
from skipmq.database.session import Session
from skipmq.model import QueueName

# The attribute that says where a message came from: its queue and its message id.
MARK = "skipmq.replayed_from"
# Messages of one call of the database's function, and bytes of one that stages.
CHUNK, _CHUNK_BYTES = 500, 8 << 20
# Each group's lock takes room in a table of the server that all its sessions share.
_FIFO_CHUNK = 200
_IDS = UUID("5f0c6f0e-7d0b-4f0e-9a51-6b1f2f6f9b1c")


def selected(history: DataFrame, condition: str) -> DataFrame:
    """Return the messages that fulfil an SQL condition, each once, in the order they were sent.

    A message that was dead-lettered and settled once more is taken as it was last settled.
    """
    found = history.where(condition)
    last = found.groupBy("id").agg(fn.max_by(fn.struct("*"), "settled_at").alias("row"))
    # Ids are given under the lock of a group: its order is theirs.
    return last.select("row.*").orderBy("id")


def overview(found: DataFrame) -> list[Mapping[str, Any]]:
    """Return by queue and outcome: `messages`, `bytes`, `without_body`, `oldest`, `newest`."""
    size = fn.col("body_bytes") + fn.col("attribute_bytes")
    without: Column = fn.count(fn.when(fn.col("body").isNull(), 1))
    rows = (
        found.groupBy("account", "region", "queue", "outcome")
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


def target(session: Session, queue: QueueName) -> Target:
    """Look a queue up; raise ReplayError when there is none."""
    found = replays.target(session, queue)
    if found is None:
        raise ReplayError(f"there is no queue {queue.name}: `skipmq queue create {queue.name}`")
    return found


def stage(session: Session, replay: str, to: Target, messages: Iterable[Any]) -> State:
    """Store the messages to send, in their order; those that the replay has already stay.

    `messages` are rows of the history; those without a body are skipped. Raises ReplayError,
    having stored nothing, when the queue would not take one of them.
    """
    with session.transaction():
        other = replays.state(session, replay).target
        if other not in (None, to.name):
            raise ReplayError(f"the replay {replay} was to {other}: give this one another --id")
        staged = (
            _staged(replay, to, place, row)
            for place, row in enumerate(messages)
            if row["body"] is not None
        )
        for chunk in _chunks(staged):
            replays.stage(session, replay, to.name, chunk)
    return replays.state(session, replay)


def _chunks(messages: Iterable[Staged]) -> Iterator[list[Staged]]:
    """Give messages in lists of at most CHUNK, each of some 8 MiB at most."""
    chunk: list[Staged] = []
    size = 0
    for message in messages:
        chunk.append(message)
        size += len(message.body) + len(message.attributes)
        if len(chunk) == CHUNK or size > _CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _staged(replay: str, to: Target, place: int, row: Any) -> Staged:
    source = f"{row['queue']}/{row['message_id']}"
    attributes = json.loads(row["attributes"] or "{}")
    attributes.pop(MARK, None)
    if len(attributes) < limits.MESSAGE_ATTRIBUTES:
        attributes[MARK] = {"DataType": "String", "StringValue": source}
    text = json.dumps(attributes, ensure_ascii=False)
    size = len(row["body"].encode()) + len(text.encode())
    if size > to.most_bytes:
        raise ReplayError(
            f"{source} has {size} bytes with its mark; {to.name} takes {to.most_bytes}:"
            " leave it out, or raise the queue's MaximumMessageSize"
        )
    return Staged(
        place,
        # The number and the message id: a number alone is one of a database.
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
    """Send what is staged, and give the number of messages of each chunk that was sent.

    One transaction, or with a `rate` (messages a second) one for each second's messages at most,
    and for a FIFO queue with more groups than can be locked at once one for 200 messages: then the
    order of each group is still kept. Raises ReplayError when it is running elsewhere and
    database.session.Error when the database refuses.
    """
    if not replays.lock(session, replay):
        raise ReplayError(f"the replay {replay} is running: wait for it")
    separate = rate is not None or (to.fifo and staged.groups > _FIFO_CHUNK)
    chunk = min(_FIFO_CHUNK if to.fifo else CHUNK, rate or CHUNK)
    if not separate:
        with session.transaction():
            while sent := replays.send(session, replay, to, chunk):
                yield sent
        return
    begun, done = monotonic(), 0
    while True:
        if rate is not None:
            sleep(max(begun + done / rate - monotonic(), 0))
        # Of a client that dies within it, a transaction is rolled back; a statement may end.
        with session.transaction():
            sent = replays.send(session, replay, to, chunk)
        if not sent:
            return
        done += sent
        yield sent
