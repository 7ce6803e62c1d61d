"""Find a message by its id in its queue and in the history."""

from typing import Annotated, NamedTuple

from skipmq.database.partitions import Database
from skipmq.database.statement import BIGINT, INTEGER, TEXT, TIME, UUID, Search, columns


class LiveMessage(NamedTuple):
    """A message in a queue; times in microseconds since 1970.

    Without an id it was not found; `is_whole`: the whole queue was searched. `failure` is what a
    consumer left with it.
    """

    id: int | None
    account: str | None
    region: str | None
    queue: str | None
    policy: str
    state: str
    state_at: int
    sent_at: int
    first_received_at: int | None
    receives: int
    dead_letter_source: str | None
    is_whole: bool
    failure: str | None
    # JSON, of add_failure.sql.
    failures: Annotated[str | None, "failures::text"]


class SettledMessage(NamedTuple):
    """A row of the history; times in microseconds since 1970.

    `place` identifies the row in a search. The last row of a search has no outcome: its
    `settled_at` is how far back the search went, its `place` where the next one continues.
    """

    id: int
    account: str | None
    region: str | None
    queue: str | None
    policy: str
    outcome: str
    sent_at: int
    first_received_at: int | None
    settled_at: int
    receives: int
    node: str | None
    place: str | None


_LIVE = Search(
    f"select {columns(LiveMessage, queue='name')} from skipmq.find_message($1, $2, $3)",
    BIGINT, UUID, BIGINT,
)  # fmt: skip
_SETTLED = Search(
    f"select {columns(SettledMessage, queue='name')} from skipmq.find_settled($1, $2, $3, $4)",
    UUID, TIME, TEXT, INTEGER,
)  # fmt: skip

# Blocks of 8 KiB that one search of the history reads at most.
BLOCKS = 8_192


async def live(
    database: Database, queue: int | None, message_id: str, reference: int | None, deadline: float
) -> LiveMessage:
    """Return the message by its reference, or by its id in the queue with this id."""
    parameters = (queue, message_id, reference)
    (row,) = await database.rows(_LIVE, parameters, deadline=deadline)
    return LiveMessage(*row)


async def settled(  # noqa: PLR0913 - the last are columns.
    database: Database,
    message_id: str,
    deadline: float,
    *,
    since: int | None = None,
    place: str | None = None,
    blocks: int = BLOCKS,
) -> tuple[list[SettledMessage], SettledMessage]:
    """Return the message's rows of the history, newest first, and the end of the search."""
    parameters = (message_id, since, place, blocks)
    rows = await database.rows(_SETTLED, parameters, deadline=deadline)
    *found, searched = (SettledMessage(*row) for row in rows)
    return found, searched
