"""Message move tasks."""

from uuid import UUID

from skipmq.database import Database, Statement, statement
from skipmq.database.statement import INTEGER, TEXT
from skipmq.model import MoveTask

_START = Statement("select skipmq.start_move_task($1, $2, $3)::text", TEXT, TEXT, INTEGER)
_LIST = Statement(
    "select task_id::text, status, destination_arn, messages_per_second, moved, to_move,"
    " failure_reason, (extract(epoch from started_at) * 1000)::bigint"
    " from skipmq.list_move_tasks($1, $2)",
    TEXT, INTEGER,
)  # fmt: skip
_CANCEL = Statement("select skipmq.cancel_move_task($1, $2)", statement.UUID, TEXT)


class Moves:
    """The functions of the database for message move tasks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def start(
        self, source: str, destination: str | None, rate: int | None, deadline: float
    ) -> str:
        """Begin to move the messages of a dead-letter queue; return the number of the task.

        Raises errors.ResourceNotFoundException when a queue does not exist, and
        errors.InvalidParameterValueException when the source cannot have a task now.
        """
        ((task,),) = await self._database.rows(
            _START, (source, destination, rate), deadline=deadline, repeatable=False
        )
        return str(task)

    async def list(self, source: str, limit: int, deadline: float) -> tuple[MoveTask, ...]:
        """Return the newest tasks of a source; raise errors.ResourceNotFoundException."""
        rows = await self._database.rows(_LIST, (source, limit), deadline=deadline)
        return tuple(MoveTask(*row) for row in rows)

    async def cancel(self, task: UUID, source: str, deadline: float) -> int:
        """Ask a running task of a source to stop; return how many messages it has moved."""
        ((moved,),) = await self._database.rows(
            _CANCEL, (str(task), source), deadline=deadline, repeatable=False
        )
        return int(moved)
