"""Sending settled messages again: once for each replay, however often that is tried.

A replay is staged in a table first, the messages in order, each under an id that follows from the
replay's. Sending and ticking off are one transaction, so that a replay that was broken off goes on
where it was. What is sent loses its body here; the ids stay, so that a repetition
sends nothing twice.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any
from uuid import UUID, uuid5

import psycopg
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from skipmq.model import QueueName

# The attribute that says where a message came from: its queue and its message id.
MARK = "skipmq.replayed_from"
# Messages of one call of the database's function.
CHUNK = 500
# Each group's lock takes room in a table of the server that all its sessions share.
_FIFO_CHUNK = 200
# What SQS takes of a message (https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-message-metadata.html).
_MOST_ATTRIBUTES = 10
_IDS = UUID("5f0c6f0e-7d0b-4f0e-9a51-6b1f2f6f9b1c")

# In a schema of its own, which the first replay makes: it is no part of the broker's.
_SCHEMA = """
create schema if not exists skipmq_replay;
create table if not exists skipmq_replay.message (
  replay text not null,
  -- The order in which they are sent.
  place bigint not null,
  message_id uuid not null,
  -- The message that it is sent again for.
  source_id uuid not null,
  target text not null,
  sent_at timestamptz,
  group_id text,
  trace_header text,
  attributes text,
  body text,
  primary key (replay, message_id)
);
create index if not exists message_to_send on skipmq_replay.message (replay, place)
where sent_at is null;
do $$ begin
  if exists (select from pg_roles where rolname = 'skipmq_node') then
    grant usage on schema skipmq_replay to skipmq_node;
    grant select, insert, update, delete on skipmq_replay.message to skipmq_node;
  end if;
end $$;
"""


class ReplayError(Exception):
    """A replay cannot be done; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Target:
    """A queue to send to."""

    name: str
    id: int
    fifo: bool
    most_bytes: int


@dataclass(frozen=True, slots=True)
class Staged:
    """What a replay has: messages to send, their bytes, and how many it has sent before."""

    to_send: int
    bytes: int
    groups: int
    sent: int


def selected(history: DataFrame, condition: str) -> DataFrame:
    """Return the messages that fulfil an SQL condition, each once, in the order they were sent.

    A message that was dead-lettered and settled once more is taken as it was last settled.
    """
    found = history.where(condition)
    last = found.groupBy("id").agg(fn.max_by(fn.struct("*"), "settled_at").alias("row"))
    # Numbers are given under the lock of a group: its order is theirs.
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


def target(connection: psycopg.Connection[Any], queue: QueueName) -> Target:
    """Look a queue up; raise ReplayError when there is none."""
    row = connection.execute(
        "select queue_id, fifo, maximum_message_size from skipmq_views.queue"
        " where account = %s and region = %s and queue = %s and retired_at is null",
        (queue.account, queue.region, queue.name),
    ).fetchone()
    if row is None:
        raise ReplayError(f"there is no queue {queue.name}: `skipmq queue create {queue.name}`")
    return Target(queue.name, *row)


def stage(
    connection: psycopg.Connection[Any], replay: str, to: Target, messages: Iterable[Any]
) -> Staged:
    """Store the messages to send, in their order; those that the replay knows already stay.

    `messages` are rows of the history; those without a body are passed over. Raises ReplayError,
    having stored nothing, when the queue would not take one of them.
    """
    with connection.transaction():
        connection.execute(_SCHEMA.encode())
        connection.execute(
            "create temporary table skipmq_staging on commit drop as"
            " select * from skipmq_replay.message with no data"
        )
        other = connection.execute(
            "select min(target) from skipmq_replay.message where replay = %s and target <> %s",
            (replay, to.name),
        ).fetchone()
        if other and other[0]:
            raise ReplayError(f"the replay {replay} was to {other[0]}: give this one another --id")
        columns = (
            "replay, place, message_id, source_id, target, group_id, trace_header, attributes, body"
        )
        with connection.cursor().copy(f"copy skipmq_staging ({columns}) from stdin") as copy:
            for place, row in enumerate(messages):
                if row["body"] is not None:
                    copy.write_row(_staged(replay, to, place, row))
        # What a replay has sent is no source of it.
        connection.execute(
            "insert into skipmq_replay.message select * from skipmq_staging s"
            " where not exists (select from skipmq_replay.message m"
            " where m.replay = s.replay and m.message_id = s.source_id) on conflict do nothing"
        )
    return state(connection, replay)


def _staged(replay: str, to: Target, place: int, row: Any) -> Sequence[Any]:
    source = f"{row['queue']}/{row['message_id']}"
    attributes = json.loads(row["attributes"] or "{}")
    attributes.pop(MARK, None)
    if len(attributes) < _MOST_ATTRIBUTES:
        attributes[MARK] = {"DataType": "String", "StringValue": source}
    told = json.dumps(attributes, ensure_ascii=False)
    size = len(row["body"].encode()) + len(told.encode())
    if size > to.most_bytes:
        raise ReplayError(
            f"{source} has {size} bytes with its mark; {to.name} takes {to.most_bytes}:"
            " leave it out, or raise the queue's MaximumMessageSize"
        )
    # The number and the message id: a number alone is one of a database.
    made = uuid5(_IDS, f"{replay}/{row['id']}/{row['message_id']}")
    group = row["group_id"] or (row["queue"] if to.fifo else None)
    return (
        *(replay, place, made, UUID(row["message_id"]), to.name, group),
        *(row["trace_header"], told, row["body"]),
    )


def state(connection: psycopg.Connection[Any], replay: str) -> Staged:
    """Return what a replay has still to send, and has sent."""
    row = connection.execute(
        "select count(*) filter (where sent_at is null),"
        " coalesce(sum(octet_length(body) + octet_length(attributes)), 0),"
        " count(distinct group_id) filter (where sent_at is null),"
        " count(*) filter (where sent_at is not null)"
        " from skipmq_replay.message where replay = %s",
        (replay,),
    ).fetchone()
    assert row is not None
    return Staged(row[0], int(row[1]), row[2], row[3])


def send(
    connection: psycopg.Connection[Any],
    replay: str,
    to: Target,
    staged: Staged,
    *,
    rate: int | None = None,
) -> Iterator[int]:
    """Send what is staged, and give the number of each part that was sent.

    One transaction, or with a `rate` (messages a second) one for each second's messages at most,
    and for a FIFO queue with more groups than can be locked at once one for 200 messages: then the
    order of each group is still kept. Raises ReplayError when it is running elsewhere and
    psycopg.Error when the database refuses.
    """
    if not _alone(connection, replay):
        raise ReplayError(f"the replay {replay} is running: wait for it")
    apart = rate is not None or (to.fifo and staged.groups > _FIFO_CHUNK)
    chunk = min(_FIFO_CHUNK if to.fifo else CHUNK, rate or CHUNK)
    if not apart:
        with connection.transaction():
            while sent := _send(connection, replay, to, chunk):
                yield sent
        return
    begun, done = monotonic(), 0
    while True:
        if rate is not None:
            sleep(max(begun + done / rate - monotonic(), 0))
        with connection.transaction():
            sent = _send(connection, replay, to, chunk)
        if not sent:
            return
        done += sent
        yield sent


def _alone(connection: psycopg.Connection[Any], replay: str) -> bool:
    """Take the lock of a replay until the connection ends; return whether that worked."""
    row = connection.execute(
        "select pg_try_advisory_lock(hashtext('skipmq_replay'), hashtext(%s))", (replay,)
    ).fetchone()
    return bool(row and row[0])


def _send(connection: psycopg.Connection[Any], replay: str, to: Target, most: int) -> int:
    rows = connection.execute(
        "select message_id, body, attributes, group_id, trace_header from skipmq_replay.message"
        " where replay = %s and sent_at is null order by place limit %s",
        (replay, most),
    ).fetchall()
    if not rows:
        return 0
    ids, bodies, attributes, groups, traces = (list(column) for column in zip(*rows, strict=True))
    sender = f"skipmq replay {replay}"
    if to.fifo:
        connection.execute(
            "select from skipmq.send_fifo_messages(%s, %s::uuid[], %s::text[], %s::text[],"
            " %s::text[], %s::text[], %s::text[], %s)",
            (to.id, ids, bodies, attributes, groups, [str(i) for i in ids], traces, sender),
        )
    else:
        connection.execute(
            "select from skipmq.send_messages(%s, %s::uuid[], %s::text[], %s::text[],"
            " null, %s::text[], %s::text[], %s)",
            (to.id, ids, bodies, attributes, groups, traces, sender),
        )
    connection.execute(
        "update skipmq_replay.message set sent_at = clock_timestamp(), body = null,"
        " attributes = null, group_id = null, trace_header = null"
        " where replay = %s and message_id = any (%s)",
        (replay, ids),
    )
    return len(rows)
