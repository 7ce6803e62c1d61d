"""Dead-letter queues, and queues without one that redeliver the same messages."""

from typing import Annotated

import msgspec
from msgspec import UnsetType

from skipmq.database.partitions import Database
from skipmq.database.statement import INTEGER, TEXT, Search, columns, whole


class SourceQueue(msgspec.Struct, rename="pascal", omit_defaults=True):
    """A queue whose redrive policy names a dead-letter queue."""

    name: str = msgspec.field(name="QueueName")
    most: int = msgspec.field(name="MaxReceiveCount")
    messages: int
    moved: int = msgspec.field(name="DeadLettered")
    policy: str | None = None


class DeadLetterQueue(msgspec.Struct, rename="pascal", omit_defaults=True):
    """A queue that redrive policies name.

    `next_name` is its own dead-letter queue, `arrived` counts the last six hours, `sources` are
    some of the queues that name it. A sum over several queues has no name; `queues` is their
    number. What the caller may not see is unset.
    """

    name: str | None = msgspec.field(name="QueueName")
    exists: Annotated[bool, "queue_id is not null"]
    source_count: int
    sources: list[SourceQueue]
    fifo: bool | UnsetType | None = msgspec.field(name="FifoQueue")
    next_name: str | UnsetType | None = msgspec.field(name="DeadLetterQueue")
    messages: int | UnsetType
    oldest: Annotated[int | UnsetType | None, whole("oldest")] = msgspec.field(name="OldestSeconds")
    arrived: int | UnsetType | None
    queues: int = 1
    policy: str | None = None


class RedeliveringQueue(msgspec.Struct, rename="pascal", omit_defaults=True):
    """A queue without dead-letter queue; `received` and `deleted` count the last six hours."""

    name: str = msgspec.field(name="QueueName")
    messages: int
    received: int
    deleted: int
    policy: str = ""


_DEAD_LETTER_QUEUES = Search(
    f"select {columns(DeadLetterQueue)} from skipmq.dead_letter_queues($1, $2, $3, $4, $5)",
    TEXT, TEXT, TEXT, INTEGER, INTEGER,
)  # fmt: skip
_REDELIVERING_QUEUES = Search(
    f"select {columns(RedeliveringQueue)} from skipmq.redelivering_queues($1, $2, $3)",
    TEXT, TEXT, TEXT,
)  # fmt: skip


async def queues(  # noqa: PLR0913 - the last have defaults.
    database: Database,
    account: str,
    region: str,
    search: str = "",
    *,
    limit: int,
    offset: int = 0,
    deadline: float = 0.0,
) -> tuple[list[DeadLetterQueue], DeadLetterQueue]:
    """Return up to `limit` dead-letter queues, the worst first, and the sum of all others."""
    parameters = (account, region, search, limit, offset)
    rows = await database.rows(_DEAD_LETTER_QUEUES, parameters, deadline=deadline)
    *queues, others = (
        DeadLetterQueue(name, exists, count, [SourceQueue(**each) for each in given or ()], *rest)
        for name, exists, count, given, *rest in rows
    )
    return queues, others


async def redelivering(
    database: Database, account: str, region: str, search: str = "", deadline: float = 0.0
) -> list[RedeliveringQueue]:
    """Return queues without dead-letter queue that redeliver messages, the worst first."""
    parameters = (account, region, search)
    rows = await database.rows(_REDELIVERING_QUEUES, parameters, deadline=deadline)
    return [RedeliveringQueue(*row) for row in rows]
