"""Staging messages of a replay by SQL alone."""

from typing import Any
from uuid import UUID

from support.postgres import Connection
from support.sql import number

_STAGE = (
    "select skipmq.stage_replay('r', 'again', %s::bigint[], %s::uuid[], %s::uuid[], %s::text[],"
    " %s::text[], %s::text[], %s::text[])"
)


def stage(connection: Connection, *numbers: int, group: str | None = None) -> Any:
    """Stage a message for each number, its place, id and body; return how many were new."""
    nothing = [None] * len(numbers)
    return number(
        connection,
        _STAGE,
        list(numbers),
        [UUID(int=n) for n in numbers],
        [UUID(int=n << 64) for n in numbers],
        [group] * len(numbers),
        nothing,
        ["{}"] * len(numbers),
        [str(n) for n in numbers],
    )


def ids(connection: Connection, condition: str = "true") -> list[UUID]:
    """Return the ids of staged messages, in the order of their places."""
    rows = connection.execute(
        f"select message_id from skipmq.replay_message where {condition} order by place"
    ).fetchall()
    return [message_id for (message_id,) in rows]
