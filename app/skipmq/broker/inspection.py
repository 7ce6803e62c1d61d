"""Peek at messages without receiving them; copy, move and delete selected messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import msgspec

from skipmq.broker.messages.budget import Budget
from skipmq.broker.queues import Queue
from skipmq.database.partitions import Database
from skipmq.database.statement import (
    BIGINT,
    BIGINTS,
    INTEGER,
    JSONB,
    TEXT,
    TIME,
    UUID,
    UUIDS,
    Search,
    Statement,
    columns,
)
from skipmq.protocol import errors, limits

_ID = "message_id::text"
# As Reference writes it.
REFERENCE = "id || '-' || message_id"


class Reference(NamedTuple):
    """What names a stored message: the number of its row, and its message id.

    A server that lost committed messages assigns the numbers again, but not the ids.
    """

    id: int
    message_id: str

    def __str__(self) -> str:
        return f"{self.id}-{self.message_id}"


class PeekedMessage(NamedTuple):
    """A peeked message; times in microseconds since 1970, `visible_in` in seconds."""

    place: str
    id: int
    state: str
    visible_in: float
    message_id: str
    body: str
    attributes: str | None
    approximate_receive_count: int
    sent_at: int
    first_received_at: int | None
    group_id: str | None
    sender: str | None
    trace_header: str | None
    dead_letter_source: str | None
    sequence_number: int | None
    deduplication_id: str | None
    # JSON, of add_failure.sql.
    failures: Annotated[str | None, "failures::text"]


class Failure(msgspec.Struct, rename="pascal", omit_defaults=True):
    """A failed receive of a message: its time in microseconds since 1970, its number, by whom."""

    at: int
    receives: int
    failure_reason: str
    access_key_id: str | None = None
    user: str | None = None
    role: str | None = None
    application: str | None = None
    client_address: str | None = None


class MessageFailures(NamedTuple):
    """Messages of one kind of failure from one source; sends in microseconds since 1970."""

    kind: str | None
    source: str | None
    source_exists: bool
    messages: int
    oldest: int
    newest: int


class NewMessage(msgspec.Struct, rename="pascal", omit_defaults=True):
    """A message that arrived in a queue; `came_at` in microseconds, the body perhaps truncated."""

    message_reference: Annotated[str, REFERENCE]
    message_id: Annotated[str, _ID]
    state: str
    came_at: int
    characters: int
    body: str
    message_group_id: Annotated[str | None, "group_id"] = None


@dataclass(frozen=True, slots=True)
class MessageFilter:
    """A filter of messages by a text in the body, by an attribute's name and by its value.

    `further` is JSON, the members of matches_filter.sql.
    """

    body_contains: str | None = None
    attribute_name: str | None = None
    attribute_value: str | None = None
    further: str | None = None


class SearchedMessages(NamedTuple):
    """What a step of a search found, and the place after it, in microseconds since 1970."""

    references: list[Reference]
    found: int
    searched: int
    at: int | None
    number: int | None
    finished: bool


_PEEKED = columns(
    PeekedMessage, visible_in="extract(epoch from visible_in)::float8", message_id=_ID
)
_PEEK = Search(
    f"select {_PEEKED} from skipmq.peek_messages($1, $2, $3, $4, $5)",
    BIGINT, TEXT, INTEGER, TEXT, BIGINT,
)  # fmt: skip
_PICKED = Search(
    f"select {_PEEKED} from skipmq.picked_messages($1, $2, $3, $4)", BIGINT, BIGINTS, UUIDS, BIGINT
)
_RANK = Search(
    "select id, message_id::text from skipmq.rank_messages($1, $2, $3)", BIGINT, TEXT, TEXT
)
_COPY = Statement(
    "select outcome from skipmq.copy_messages($1, $2, $3, $4, $5) order by place",
    BIGINT, BIGINTS, UUIDS, BIGINT, TEXT, repeatable=False,
)  # fmt: skip
_MOVE = Statement(
    "select outcome from skipmq.move_messages($1, $2, $3, $4) order by place",
    BIGINT, BIGINTS, UUIDS, BIGINT, repeatable=False,
)  # fmt: skip
_DELETE = Statement(
    "select outcome from skipmq.delete_picked_messages($1, $2, $3) order by place",
    BIGINT, BIGINTS, UUIDS,
)  # fmt: skip
_NEWEST = Search(
    f"select {columns(NewMessage)} from skipmq.newest_messages($1, $2, $3, $4)",
    BIGINT, TIME, INTEGER, INTEGER,
)  # fmt: skip
_SEARCH = Search(
    "select ids, message_ids::text[], matched, searched, at, number, finished"
    " from skipmq.search_messages($1, $2, $3, $4, $5, $6, $7)",
    BIGINT, TEXT, TEXT, TEXT, JSONB, TIME, BIGINT,
)  # fmt: skip
_RECORD_FAILURE = Statement(
    "select skipmq.record_failure($1, $2, $3, $4, $5, $6)",
    BIGINT, BIGINT, INTEGER, UUID, TEXT, TEXT,
)  # fmt: skip
_DEAD_LETTER = Statement(
    "select skipmq.dead_letter_message($1, $2, $3, $4, $5, $6, $7, $8)",
    TEXT, BIGINT, INTEGER, UUID, TEXT, TEXT, TEXT, TEXT, repeatable=False,
)  # fmt: skip
_FAILURES = Search(
    f"select {columns(MessageFailures)} from skipmq.message_failures($1, $2)",
    BIGINT, INTEGER,
)  # fmt: skip


async def peek(  # noqa: PLR0913, PLR0917 - the last are columns.
    database: Database,
    budget: Budget,
    queue: Queue,
    state: str | None,
    limit: int,
    after: str | None,
    deadline: float,
) -> list[PeekedMessage]:
    """Return up to `limit` messages after the place `after`, of one state or of all.

    Stops early once bodies and attributes exceed `limits.PEEKED_BYTES`.
    """
    parameters = (queue.id, state, limit, after, limits.PEEKED_BYTES)
    return await _peeked(database, budget, queue, _PEEK, parameters, deadline)


async def _peeked(  # noqa: PLR0913, PLR0917 - the last are columns.
    database: Database,
    budget: Budget,
    queue: Queue,
    statement: Search,
    parameters: Sequence[Any],
    deadline: float,
) -> list[PeekedMessage]:
    with await budget.room(1, limits.PEEKED_BYTES, deadline):
        rows = await database.rows(statement, parameters, deadline=deadline, tenant=queue.id)
    return [PeekedMessage(*row) for row in rows]


async def picked(
    database: Database, budget: Budget, queue: Queue, messages: Sequence[Reference], deadline: float
) -> list[PeekedMessage]:
    """Return those of these messages that the queue still has, in their order.

    Stops early once bodies and attributes exceed `limits.PEEKED_BYTES`.
    """
    parameters = (queue.id, *_columns(messages), limits.PEEKED_BYTES)
    return await _peeked(database, budget, queue, _PICKED, parameters, deadline)


async def ranked(
    database: Database, queue: Queue, state: str | None, order: str, deadline: float
) -> list[Reference]:
    """Return the first messages, `limits.RANKED` at most, in another order."""
    parameters = (queue.id, state, order)
    rows = await database.rows(_RANK, parameters, deadline=deadline, tenant=queue.id)
    return [Reference(*row) for row in rows]


async def newest(  # noqa: PLR0913, PLR0917 - the last are columns.
    database: Database,
    queue: Queue,
    since: int | None,
    limit: int,
    characters: int,
    deadline: float,
) -> list[NewMessage]:
    """Return the newest messages, up to `limit`, newest first.

    `since` is in microseconds since 1970; bodies are truncated to `characters`.
    """
    parameters = (queue.id, since, limit, characters)
    rows = await database.rows(_NEWEST, parameters, deadline=deadline, tenant=queue.id)
    return [NewMessage(*row) for row in rows]


async def copy(  # noqa: PLR0913, PLR0917 - the last are columns.
    database: Database,
    queue: Queue,
    messages: Sequence[Reference],
    target: Queue,
    sender: str,
    deadline: float,
) -> list[str]:
    """Send copies of messages to another queue; return each one's outcome in order.

    Raises errors.OutcomeUnknown, since a retry might copy messages twice.
    """
    parameters = (queue.id, *_columns(messages), target.id, sender)
    rows = await database.rows(_COPY, parameters, deadline=deadline, tenant=queue.id)
    return [outcome for (outcome,) in rows]


async def move(
    database: Database, queue: Queue, messages: Sequence[Reference], target: Queue, deadline: float
) -> list[str]:
    """Move messages to another queue; return each one's outcome in order.

    Raises errors.OutcomeUnknown, since a retry would not find messages that were moved.
    """
    parameters = (queue.id, *_columns(messages), target.id)
    rows = await database.rows(_MOVE, parameters, deadline=deadline, tenant=queue.id)
    return [outcome for (outcome,) in rows]


async def delete(
    database: Database, queue: Queue, messages: Sequence[tuple[int | None, str]], deadline: float
) -> list[str]:
    """Delete messages that are not in flight; return each one's outcome in order.

    One without a number must be delayed.
    """
    rows = await database.rows(
        _DELETE, (queue.id, *_columns(messages)), deadline=deadline, tenant=queue.id
    )
    return [outcome for (outcome,) in rows]


async def record_failure(  # noqa: PLR0913, PLR0917 - the last are columns.
    database: Database,
    queue: Queue,
    message: Reference,
    receive_count: int,
    reason: str,
    receiver: str,
    deadline: float,
) -> bool:
    """Keep a reason with a message; return False if it was settled or received again."""
    parameters = (queue.id, message.id, receive_count, message.message_id, reason, receiver)
    ((recorded,),) = await database.rows(
        _RECORD_FAILURE, parameters, deadline=deadline, tenant=queue.id
    )
    return bool(recorded)


async def dead_letter(  # noqa: PLR0913, PLR0917 - the last are columns.
    database: Database,
    queue: Queue,
    message: Reference,
    receive_count: int,
    reason: str,
    receiver: str,
    deadline: float,
) -> bool:
    """Move a message to the dead-letter queue; return False if settled or received again.

    Raises errors.UnsupportedOperation if there is none, and errors.OutcomeUnknown, since a retry
    would not find the message.
    """
    name = queue.name
    fences = (message.id, receive_count, message.message_id)
    parameters = (name.name, *fences, reason, name.account, name.region, receiver)
    try:
        ((moved,),) = await database.rows(
            _DEAD_LETTER, parameters, deadline=deadline, tenant=queue.id
        )
    except errors.QueueDoesNotExist:
        # It may be in another partition.
        raise errors.QueueMoved from None
    return bool(moved)


async def failures(database: Database, queue: Queue, deadline: float) -> list[MessageFailures]:
    """Group the first messages, up to `limits.GROUPED`, by kind of failure and by source."""
    parameters = (queue.id, limits.GROUPED)
    rows = await database.rows(_FAILURES, parameters, deadline=deadline, tenant=queue.id)
    return [MessageFailures(*row) for row in rows]


async def search(
    database: Database,
    queue: Queue,
    matching: MessageFilter,
    place: tuple[int | None, ...],
    deadline: float,
) -> SearchedMessages:
    """Search messages after a place, for a second at most."""
    texts = (matching.body_contains, matching.attribute_name, matching.attribute_value)
    parameters = (queue.id, *texts, matching.further, *place)
    (row,) = await database.rows(_SEARCH, parameters, deadline=deadline, tenant=queue.id)
    ids, message_ids, *rest = row
    references = [Reference(*each) for each in zip(ids, message_ids, strict=True)]
    return SearchedMessages(references, *rest)


def _columns(
    messages: Sequence[tuple[int | None, str]] | Sequence[Reference],
) -> tuple[list[int | None], list[str]]:
    return [number for number, _ in messages], [message_id for _, message_id in messages]
