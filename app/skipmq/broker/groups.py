"""Groups of FIFO queues, and the release of messages in flight."""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from skipmq.broker.inspection import REFERENCE, Reference
from skipmq.broker.queues import Queue
from skipmq.database.partitions import Database
from skipmq.database.statement import (
    BIGINT,
    BIGINTS,
    INTEGER,
    TEXT,
    TEXTS,
    UUIDS,
    Search,
    Statement,
    columns,
    milliseconds,
    whole,
)

# Beyond that the messages that wait in a group are not counted.
COUNTED = 1_000


class PausedGroup(msgspec.Struct, rename="pascal", omit_defaults=True):
    """A group whose messages are not received; times in seconds since 1970."""

    message_group_id: Annotated[str, "group_id"]
    paused_by: str
    paused_timestamp: Annotated[int, "floor(extract(epoch from paused_at))::bigint"]
    paused_until: Annotated[int | None, "ceil(extract(epoch from until))::bigint"] = None


class MessageGroup(msgspec.Struct, rename="pascal", omit_defaults=True):
    """A group of a FIFO queue with its first message, and who received that last.

    Times are in milliseconds since 1970. `place` is where a next page begins; `receiver` is
    `http/KEY/ADDRESS` or `sql/ROLE/ADDRESS/APPLICATION`.
    """

    message_group_id: Annotated[str, "group_id"]
    state: str
    message_reference: Annotated[str, REFERENCE]
    message_id: Annotated[str, "message_id::text"]
    sent_timestamp: Annotated[int, milliseconds("sent_at")]
    approximate_receive_count: Annotated[int, "receives"]
    messages_in_flight: Annotated[int, "in_flight"]
    messages_behind: Annotated[int, "behind"]
    is_whole_count: Annotated[bool, f"in_flight + behind < {COUNTED}"]
    received_timestamp: Annotated[int | None, milliseconds("received_at")] = None
    visible_timestamp: Annotated[int | None, milliseconds("until")] = None
    in_flight_seconds: Annotated[int | None, whole("held")] = None
    place: str = ""
    receiver: str | None = None
    # Known from `receiver`.
    role: Annotated[str | None, "null"] = None
    application: Annotated[str | None, "null"] = None
    access_key_id: Annotated[str | None, "null"] = None
    user: Annotated[str | None, "null"] = None
    client_address: Annotated[str | None, "null"] = None


_LIST = Search(
    f"select {columns(MessageGroup)} from skipmq.queue_groups($1, $2, $3, $4)",
    BIGINT, INTEGER, TEXT, TEXT,
)  # fmt: skip
_PAUSE = Statement(
    "select from skipmq.pause_group($1, $2, to_timestamp($3::bigint), $4)",
    BIGINT, TEXT, BIGINT, TEXT,
)  # fmt: skip
_RESUME = Statement("select skipmq.resume_group($1, $2)", BIGINT, TEXT, repeatable=False)
_PAUSED = Search(
    f"select {columns(PausedGroup)} from skipmq.paused_groups($1, $2, $3, $4)",
    BIGINT, INTEGER, TEXT, TEXT,
)  # fmt: skip
_RELEASE = Statement(
    "select outcome, messages from skipmq.release_messages($1, $2, $3, $4) order by place",
    BIGINT, BIGINTS, UUIDS, TEXTS,
)  # fmt: skip
_RESCHEDULE = Statement(
    "select outcome from skipmq.reschedule_messages($1, $2, $3, $4) order by place",
    BIGINT, BIGINTS, UUIDS, INTEGER,
)  # fmt: skip


async def listed(  # noqa: PLR0913, PLR0917 - the parameters of queue_groups.
    database: Database,
    queue: Queue,
    limit: int,
    after: str | None,
    group: str | None,
    deadline: float,
) -> list[MessageGroup]:
    """Return up to `limit` groups after the place `after`, those in flight longest first.

    Raises errors.QueueMoved when the queue was purged or deleted since it was looked up.
    """
    rows = await database.rows(
        _LIST, (queue.id, limit, after, group), deadline=deadline, tenant=queue.id
    )
    return [MessageGroup(*row) for row in rows]


async def pause(  # noqa: PLR0913, PLR0917 - the parameters of pause_group.
    database: Database, queue: Queue, group: str, until: int | None, by: str, deadline: float
) -> None:
    """Have no messages of a group received, until a time in seconds since 1970 if given.

    Raises errors.QueueMoved as `listed` does.
    """
    await database.rows(_PAUSE, (queue.id, group, until, by), deadline=deadline, tenant=queue.id)


async def resume(database: Database, queue: Queue, group: str, deadline: float) -> bool:
    """Have the messages of a group received again; return whether it was paused."""
    ((resumed,),) = await database.rows(
        _RESUME, (queue.id, group), deadline=deadline, tenant=queue.id
    )
    return bool(resumed)


async def paused(  # noqa: PLR0913, PLR0917 - the parameters of paused_groups.
    database: Database, queue: Queue, limit: int, after: str, group: str | None, deadline: float
) -> list[PausedGroup]:
    """Return up to `limit` paused groups, by name after `after`, or a group alone if it is."""
    rows = await database.rows(
        _PAUSED, (queue.id, limit, after, group), deadline=deadline, tenant=queue.id
    )
    return [PausedGroup(*row) for row in rows]


async def release(
    database: Database,
    queue: Queue,
    messages: Sequence[tuple[int | None, str]] | Sequence[Reference],
    groups: Sequence[str],
    deadline: float,
) -> list[tuple[str, int]]:
    """Make messages in flight, and those of groups, visible now.

    A message without a number is looked for among those in flight. Returns for each message, then
    for each group, its outcome and how many messages it made visible. Raises errors.QueueMoved as
    `listed` does.
    """
    ids, message_ids = [number for number, _ in messages], [each for _, each in messages]
    parameters = (queue.id, ids, message_ids, [*groups])
    rows = await database.rows(_RELEASE, parameters, deadline=deadline, tenant=queue.id)
    return [(outcome, count) for outcome, count in rows]


async def reschedule(
    database: Database,
    queue: Queue,
    messages: Sequence[tuple[int | None, str]],
    seconds: int,
    deadline: float,
) -> list[str]:
    """Make messages of a standard queue visible in some seconds from now; return an outcome each.

    Those in flight, delayed and visible alike; one without a number must be delayed.
    """
    ids, message_ids = [number for number, _ in messages], [each for _, each in messages]
    parameters = (queue.id, ids, message_ids, seconds)
    rows = await database.rows(_RESCHEDULE, parameters, deadline=deadline, tenant=queue.id)
    return ["rescheduled" if outcome == "changed" else outcome for (outcome,) in rows]
