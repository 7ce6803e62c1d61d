"""Message move tasks, and tasks on messages that match a filter."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from uuid import UUID

from skipmq.broker.inspection import MessageFilter
from skipmq.database import statement
from skipmq.database.partitions import Database
from skipmq.database.statement import (
    BOOLEAN,
    INTEGER,
    JSONB,
    TEXT,
    TEXTS,
    Search,
    Statement,
    columns,
)


@dataclass(frozen=True, slots=True)
class MoveTask:
    """A redrive, or a task that moves, copies or deletes messages that match a filter.

    `started_at` is in milliseconds since 1970.
    """

    id: Annotated[str, "task_id::text"]
    status: str
    destination: Annotated[str | None, "destination_arn"]
    rate: Annotated[int | None, "messages_per_second"]
    moved: int
    to_move: int
    failure: Annotated[str | None, "failure_reason"]
    started_at: Annotated[int, "(extract(epoch from started_at) * 1000)::bigint"]
    # redrive, which is SQS's, or move, copy or delete, which have a filter.
    kind: str
    body_contains: str | None
    attribute_name: str | None
    attribute_value: str | None
    passed: int
    further: Annotated[dict[str, Any] | None, "filter"]


_START = Statement(
    "select skipmq.start_move_task($1, $2, $3, $4)::text",
    TEXT, TEXT, INTEGER, TEXTS, repeatable=False,
)  # fmt: skip
_ORIGINS = Statement("select skipmq.dead_letter_origins($1)", TEXT)
_START_MATCHING = Statement(
    "select skipmq.start_message_task($1, $2, $3, $4, $5, $6, $7, $8)::text",
    TEXT, TEXT, TEXT, INTEGER, TEXT, TEXT, TEXT, JSONB, repeatable=False,
)  # fmt: skip
_LIST = Search(
    f"select {columns(MoveTask)} from skipmq.list_move_tasks($1, $2, $3)", TEXT, INTEGER, BOOLEAN
)  # fmt: skip
_NO_FILTER = dict.fromkeys(
    ("body_contains", "attribute_name", "attribute_value", "further"), "null"
)
_ACCOUNT = Search(
    f"select source_arn, {columns(MoveTask, **_NO_FILTER)} from skipmq.account_tasks($1, $2, $3)",
    TEXT, TEXT, INTEGER,
)  # fmt: skip
_CANCEL = Statement(
    "select skipmq.cancel_move_task($1, $2)", statement.UUID, TEXT, repeatable=False
)


async def start(  # noqa: PLR0913 - the last are columns.
    database: Database,
    source: str,
    destination: str | None,
    rate: int | None,
    deadline: float,
    *,
    origins: Sequence[str] | None = None,
) -> str:
    """Start to move the messages of a dead-letter queue; return the task's id.

    Without a destination messages return to the queues that they came from, if `origins` (ARNs)
    is None or lists that queue.

    Raises errors.ResourceNotFoundException if a queue does not exist, and
    errors.InvalidParameterValueException if the source cannot have a task now.
    """
    ((task,),) = await database.rows(
        _START, (source, destination, rate, origins), deadline=deadline
    )
    return str(task)


async def origins(database: Database, source: str, deadline: float) -> list[str]:
    """Return the ARNs of the queues that messages of a dead-letter queue came from."""
    return [arn for (arn,) in await database.rows(_ORIGINS, (source,), deadline=deadline)]


async def start_matching(  # noqa: PLR0913 - each is a column.
    database: Database,
    kind: str,
    source: str,
    destination: str | None,
    *,
    rate: int | None,
    matching: MessageFilter,
    deadline: float,
) -> str:
    """Start to move, copy or delete the messages that match a filter; return the task's id.

    Raises the errors of `start`.
    """
    parameters = (
        *(source, kind, destination, rate),
        *(matching.body_contains, matching.attribute_name, matching.attribute_value),
        matching.further,
    )
    ((task,),) = await database.rows(_START_MATCHING, parameters, deadline=deadline)
    return str(task)


async def tasks(
    database: Database, source: str, limit: int, deadline: float, *, every: bool = False
) -> tuple[MoveTask, ...]:
    """Return the newest redrives of a source, or with `every` its newest tasks of all kinds.

    Raises errors.ResourceNotFoundException.
    """
    rows = await database.rows(_LIST, (source, limit, every), deadline=deadline)
    return tuple(MoveTask(*row) for row in rows)


async def account_tasks(
    database: Database, account: str, region: str, limit: int, deadline: float
) -> tuple[tuple[str, MoveTask], ...]:
    """Return the tasks of all queues with their sources, those that run first; no filters."""
    rows = await database.rows(_ACCOUNT, (account, region, limit), deadline=deadline)
    return tuple((source, MoveTask(*task)) for source, *task in rows)


async def cancel(database: Database, task: UUID, source: str, deadline: float) -> int:
    """Cancel a running task of a source; return the number of messages that it has moved."""
    ((moved,),) = await database.rows(_CANCEL, (str(task), source), deadline=deadline)
    return int(moved)
