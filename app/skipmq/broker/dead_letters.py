"""Dead-letter queues, and queues without one that redeliver the same messages."""

from typing import Any, NamedTuple

import msgspec

from skipmq.database.partitions import Database
from skipmq.database.statement import INTEGER, TEXT, Search, columns


class DeadLetterQueue(NamedTuple):
    """A queue that redrive policies name; without an id it does not exist.

    `next_name` is its own dead-letter queue, `oldest` is in seconds, `arrived` counts the last six
    hours, `sources` are some of the queues that name it: `name`, `most` (receives), `policy`,
    `messages`, `moved`. A sum over several queues has no name; `queues` is their number.
    """

    name: str | None
    id: int | None
    queues: int
    fifo: bool | None
    policy: str | None
    next_name: str | None
    messages: int
    oldest: float | None
    arrived: int | None
    source_count: int
    sources: list[dict[str, Any]] | None


class RedeliveringQueue(msgspec.Struct, rename="pascal", omit_defaults=True):
    """A queue without dead-letter queue; `received` and `deleted` count the last six hours."""

    name: str = msgspec.field(name="QueueName")
    messages: int
    received: int
    deleted: int
    policy: str = ""


_DEAD_LETTER_QUEUES = Search(
    f"select {columns(DeadLetterQueue, id='queue_id')}"
    " from skipmq.dead_letter_queues($1, $2, $3, $4, $5)",
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
    *queues, others = (DeadLetterQueue(*row) for row in rows)
    return queues, others


async def redelivering(
    database: Database, account: str, region: str, search: str = "", deadline: float = 0.0
) -> list[RedeliveringQueue]:
    """Return queues without dead-letter queue that redeliver messages, the worst first."""
    parameters = (account, region, search)
    rows = await database.rows(_REDELIVERING_QUEUES, parameters, deadline=deadline)
    return [RedeliveringQueue(*row) for row in rows]
