"""What needs attention in the queues of an account and region."""

from typing import NamedTuple

from skipmq.database import Database, Search
from skipmq.database.statement import INTEGER, TEXT

_TROUBLES = Search(
    "select trouble, queue, policy, seconds, messages, dead_letter_queue, reason"
    " from skipmq.queue_troubles($1, $2, $3, $4)",
    TEXT, TEXT, INTEGER, TEXT,
)  # fmt: skip


class QueueTrouble(NamedTuple):
    """A queue, or a task of it, that needs attention."""

    trouble: str
    queue: str
    policy: str | None
    seconds: float | None
    messages: int
    dead_letter_queue: str | None
    reason: str | None


class Troubles:
    """The SQL function for what needs attention."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def queues(
        self,
        account: str,
        region: str,
        limit: int,
        queue: str | None = None,
        deadline: float = 0.0,
    ) -> list[QueueTrouble]:
        """Return up to `limit` troubles of queues, or of one, the worst first."""
        parameters = (account, region, limit, queue)
        rows = await self._database.rows(_TROUBLES, parameters, deadline=deadline)
        return [QueueTrouble(*row) for row in rows]
