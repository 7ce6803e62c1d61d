"""What needs attention in the queues of an account and region."""

from math import inf
from typing import Any, NamedTuple

from skipmq.database.partitions import Database
from skipmq.database.statement import INTEGER, TEXT, Search, columns


class QueueTrouble(NamedTuple):
    """A queue, or a task of it, that needs attention.

    `usual` is the queue's number of such messages in a quarter of an hour of the last days.
    """

    trouble: str
    account: str
    region: str
    queue: str
    policy: str | None
    seconds: float | None
    messages: int
    dead_letter_queue: str | None
    reason: str | None
    usual: float | None


_TROUBLES = Search(
    f"select rank, {columns(QueueTrouble)} from skipmq.queue_troubles($1, $2, $3, $4)",
    TEXT, TEXT, INTEGER, TEXT,
)  # fmt: skip


async def queues(  # noqa: PLR0913, PLR0917 - the last are columns.
    database: Database,
    account: str | None,
    region: str | None,
    limit: int,
    queue: str | None = None,
    deadline: float = 0.0,
) -> list[QueueTrouble]:
    """Return up to `limit` troubles of queues, or of one, the worst first.

    An account or region of None is every one. Those of partitions that are unavailable are left
    out.
    """
    parameters = (account, region, limit, queue)
    found = await database.rows_everywhere(_TROUBLES, parameters, deadline=deadline)
    rows = sorted((row for rows in found for row in rows), key=_order)
    return [QueueTrouble(*row[1:]) for row in rows[:limit]]


def _order(row: Any) -> tuple[int, float, float, int, str]:
    """Return the key by which queue_troubles orders its rows."""
    rank, found = row[0], QueueTrouble(*row[1:])
    # No failure of a new kind is usual.
    usual = 0.0 if found.trouble == "new-failure" else found.usual
    excess = inf if usual is None else -found.messages / max(usual, 1)
    seconds = inf if found.seconds is None else -found.seconds
    return rank, excess, seconds, -(found.messages or 0), found.queue
