"""Message move tasks."""

from uuid import UUID

from skipmq.model import MoveTask
from skipmq.store.engine import Database


class Moves:
    """The functions of the database for message move tasks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def start(self, source: str, destination: str | None, rate: int | None) -> str:
        """Begin to move the messages of a dead-letter queue; return the number of the task.

        Raises errors.ResourceNotFoundException when a queue is not there, and
        errors.InvalidParameterValueException when the source cannot have a task now.
        """
        rows = self._database.rows_once(
            "select skipmq.start_move_task(%s, %s, %s::int)", (source, destination, rate)
        )
        return str(rows[0][0])

    def list(self, source: str, limit: int) -> tuple[MoveTask, ...]:
        """Return the newest tasks of a source; raise errors.ResourceNotFoundException."""
        rows = self._database.rows(
            "select task_id::text, status, destination_arn, messages_per_second, moved, to_move,"
            " failure_reason, (extract(epoch from started_at) * 1000)::bigint"
            " from skipmq.list_move_tasks(%s, %s::int)",
            (source, limit),
        )
        return tuple(MoveTask(*row) for row in rows)

    def cancel(self, task: UUID) -> int:
        """Ask a running task to stop; return how many messages it has moved."""
        rows = self._database.rows_once("select skipmq.cancel_move_task(%s)", (task,))
        return int(rows[0][0])
