"""Message move tasks, and tasks on the messages that match a filter."""

from collections.abc import Sequence
from uuid import UUID

from skipmq.database import Database, Statement, statement
from skipmq.database.statement import BOOLEAN, INTEGER, TEXT, TEXTS
from skipmq.model import MessageFilter, MoveTask

_START = Statement(
    "select skipmq.start_move_task($1, $2, $3, $4)::text",
    TEXT,
    TEXT,
    INTEGER,
    TEXTS,
    repeatable=False,
)
_ORIGINS = Statement("select skipmq.dead_letter_origins($1)", TEXT)
_START_MATCHING = Statement(
    "select skipmq.start_message_task($1, $2, $3, $4, $5, $6, $7)::text",
    TEXT, TEXT, TEXT, INTEGER, TEXT, TEXT, TEXT, repeatable=False,
)  # fmt: skip
_LIST = Statement(
    "select task_id::text, status, destination_arn, messages_per_second, moved, to_move,"
    " failure_reason, (extract(epoch from started_at) * 1000)::bigint, kind, body_contains,"
    " attribute_name, attribute_value, passed from skipmq.list_move_tasks($1, $2, $3)",
    TEXT, INTEGER, BOOLEAN,
)  # fmt: skip
_CANCEL = Statement(
    "select skipmq.cancel_move_task($1, $2)", statement.UUID, TEXT, repeatable=False
)


class Moves:
    """The functions of the database for message move tasks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def start(
        self,
        source: str,
        destination: str | None,
        rate: int | None,
        deadline: float,
        *,
        origins: Sequence[str] | None = None,
    ) -> str:
        """Begin to move the messages of a dead-letter queue; return the number of the task.

        Without a destination only those go back that came from `origins` (ARNs), where these are
        given.

        Raises errors.ResourceNotFoundException when a queue does not exist, and
        errors.InvalidParameterValueException when the source cannot have a task now.
        """
        ((task,),) = await self._database.rows(
            _START, (source, destination, rate, origins), deadline=deadline
        )
        return str(task)

    async def origins(self, source: str, deadline: float) -> list[str]:
        """Return the ARNs of the queues that messages of a dead-letter queue came from."""
        return [arn for (arn,) in await self._database.rows(_ORIGINS, (source,), deadline=deadline)]

    async def start_matching(  # noqa: PLR0913 - a task has as many parts.
        self,
        kind: str,
        source: str,
        destination: str | None,
        *,
        rate: int | None,
        wanted: MessageFilter,
        deadline: float,
    ) -> str:
        """Begin to move, copy or delete what matches; return the number of the task.

        Raises what `start` raises.
        """
        parameters = (
            *(source, kind, destination, rate),
            *(wanted.body_contains, wanted.attribute_name, wanted.attribute_value),
        )
        ((task,),) = await self._database.rows(_START_MATCHING, parameters, deadline=deadline)
        return str(task)

    async def list(
        self, source: str, limit: int, deadline: float, *, every: bool = False
    ) -> tuple[MoveTask, ...]:
        """Return the newest redrives of a source, or tasks of every kind.

        Raises errors.ResourceNotFoundException.
        """
        rows = await self._database.rows(_LIST, (source, limit, every), deadline=deadline)
        return tuple(MoveTask(*row) for row in rows)

    async def cancel(self, task: UUID, source: str, deadline: float) -> int:
        """Ask a running task of a source to stop; return how many messages it has moved."""
        ((moved,),) = await self._database.rows(_CANCEL, (str(task), source), deadline=deadline)
        return int(moved)
