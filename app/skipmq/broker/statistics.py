"""Statistics of queues: messages, counters and rates, of all nodes and SQL users."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import msgspec

from skipmq.broker.queues import Queue
from skipmq.database.partitions import Database
from skipmq.database.statement import (
    BIGINT,
    BIGINTS,
    BOOLEAN,
    INTEGER,
    TEXT,
    Search,
    columns,
)


@dataclass(frozen=True, slots=True)
class MessageCounts:
    """The numbers of visible, in-flight and delayed messages of a queue."""

    visible: int
    in_flight: int
    delayed: int


class QueueMinute(msgspec.Struct, rename="pascal"):
    """The counters of a queue for one minute, and its number of messages."""

    # In seconds since 1970.
    minute: int
    sent: int
    received: int
    deleted: int
    dead_lettered: int
    expired: int
    messages: int


class QueueStatistics(msgspec.Struct, rename="pascal", omit_defaults=True):
    """A queue's messages, its counters since it was created or purged, and its current rates.

    A sum over several queues has no name; `queues` is their number. What follows `trouble` is for
    operators.
    """

    queue: str | None = msgspec.field(name="QueueName")
    fifo: bool | None = msgspec.field(name="FifoQueue")
    # Whether a redrive policy of another queue names this one.
    dead_letters: bool | None = msgspec.field(name="DeadLetterQueue")
    visible: int | None
    in_flight: int | None
    delayed: int | None
    sent: int | None
    bytes_sent: int | None
    received: int | None
    empty_receives: int | None
    deleted: int | None
    expired: int | None
    dead_lettered: int | None
    redriven: int | None
    moved_in: int | None
    sent_per_minute: float | None
    received_per_minute: float | None
    deleted_per_minute: float | None
    oldest: int | float | None = msgspec.field(name="OldestSeconds")
    # Until the oldest message expires.
    expires_in: int | float | None = msgspec.field(name="ExpiresInSeconds")
    minutes: list[QueueMinute] | None = None
    # What is wrong, as in the overview; read for one account and region only.
    trouble: str | None = None
    paused: bool | None = None
    # By whom, and for how many seconds.
    paused_by: str | None = None
    paused_for: int | float | None = msgspec.field(default=None, name="PausedSeconds")
    # Of the oldest messages, those that were received many times.
    repeated: int | None = None
    # Whether the oldest messages wait for a paused group or a limit.
    held: bool | None = None
    paused_groups: int | None = None
    account: str | None = None
    region: str | None = None
    id: int | None = None
    queues: int = 1
    messages: int | None = None
    policy: str | None = None


class Percentiles(msgspec.Struct, rename="pascal"):
    """Percentiles of times, in microseconds."""

    p50: int
    p95: int
    p99: int


class TimeInQueue(msgspec.Struct, rename="pascal", omit_defaults=True):
    """The times that messages settled in one step spent in their queue.

    They are None where no message was received or deleted; `start` is that of the step in seconds
    since 1970, or None for all steps.
    """

    settled: int
    deleted: int
    start: int | None = None
    send_to_receive: Percentiles | None = None
    send_to_delete: Percentiles | None = None


Order: TypeAlias = Literal[
    "name", "messages", "rate", "dead-lettered", "trouble", "oldest", "visible", "in-flight",
    "delayed", "sent", "deleted", "expired",
]  # fmt: skip
ORDERS: tuple[str, ...] = get_args(Order)
FILTERS = ("backlog", "failing", "not-received", "dead-letters", "fifo")

_COUNT = Search("select visible, in_flight, delayed from skipmq.count_messages($1)", BIGINT)
_PER_MINUTE = {
    "sent_per_minute": "60 * send_rate",
    "received_per_minute": "60 * receive_rate",
    "deleted_per_minute": "60 * delete_rate",
}
_STATISTICS = Search(
    f"select {columns(QueueStatistics, id='queue_id', minutes='null', **_PER_MINUTE)}"
    " from skipmq.queue_statistics($1, $2, $3, $4, $5, $6, $7, $8, $9)",
    TEXT, TEXT, TEXT, TEXT, INTEGER, INTEGER, BOOLEAN, TEXT, TEXT,
)  # fmt: skip
_OLDEST = Search("select skipmq.oldest_message($1, $2)", BIGINT, BOOLEAN)
_MINUTES = Search(
    f"select queue_id, {columns(QueueMinute, minute='extract(epoch from minute)::bigint')}"
    " from skipmq.queue_minutes($1, $2, $3)",
    BIGINTS, INTEGER, INTEGER,
)  # fmt: skip
_TIME_IN_QUEUE = Search(
    "select settled, deleted, extract(epoch from step)::bigint, send_to_receive, send_to_delete,"
    " part < 1 from skipmq.time_in_queue($1, $2, $3)",
    BIGINT, INTEGER, INTEGER,
)  # fmt: skip


async def count(database: Database, queue_id: int, deadline: float) -> MessageCounts:
    """Return the numbers of messages in a queue."""
    parameters = (queue_id,)
    (row,) = await database.rows(_COUNT, parameters, deadline=deadline, queue_id=queue_id)
    return MessageCounts(*row)


async def queues(  # noqa: PLR0913 - all but the first have defaults.
    database: Database,
    limit: int,
    *,
    account: str | None = None,
    region: str | None = None,
    search: str = "",
    order: str = "name",
    descending: bool | None = None,
    offset: int = 0,
    only: str | None = None,
    tag: str | None = None,
    deadline: float = 0.0,
) -> tuple[list[QueueStatistics], QueueStatistics]:
    """Return the statistics of up to `limit` queues, and the sum of all others that match.

    By default the order is ascending for names and descending for numbers. `only` is one of
    FILTERS, `tag` is a tag's key, or its key and value as `key=value`.
    """
    parameters = (account, region, search, order, limit, offset, descending, only, tag)
    rows = await database.rows(_STATISTICS, parameters, deadline=deadline)
    *queues, others = (QueueStatistics(*row) for row in rows)
    return queues, others


async def oldest(database: Database, queue: Queue, deadline: float = 0.0) -> float | None:
    """Return the age in seconds of the oldest message that is visible or in flight."""
    parameters = (queue.id, queue.fifo)
    ((age,),) = await database.rows(_OLDEST, parameters, deadline=deadline, queue_id=queue.id)
    return None if age is None else float(age)


async def minutes(
    database: Database, queues: Sequence[int], minutes: int, deadline: float = 0.0, step: int = 1
) -> dict[int, list[QueueMinute]]:
    """Return the counters of queues, by id, for the last minutes by steps, oldest first.

    Steps without activity are omitted. The database keeps six hours by the minute, and seven
    days by ten minutes.
    """
    found: dict[int, list[QueueMinute]] = {queue: [] for queue in queues}
    parameters = ([*queues], minutes, step)
    for queue, *row in await database.rows(_MINUTES, parameters, deadline=deadline):
        found[queue].append(QueueMinute(*row))
    return found


async def time_in_queue(
    database: Database, queue: int, minutes: int, step: int, deadline: float = 0.0
) -> tuple[list[TimeInQueue], TimeInQueue, bool]:
    """Return the times in queue, for each step of `step` minutes and for all of them.

    They are read from the history, or from a sample if it is long: the last says which.
    """
    parameters = (queue, minutes, step)
    rows = await database.rows(_TIME_IN_QUEUE, parameters, deadline=deadline, tenant=queue)
    *steps, every = (
        TimeInQueue(settled, deleted, at, *(each and Percentiles(*each) for each in times))
        for settled, deleted, at, *times, _ in rows
    )
    return steps, every, rows[-1][-1]
