"""Staging messages and sending them by SQL alone, as Spark's sink does."""

from typing import Any
from uuid import UUID

from support.postgres import Connection
from support.sql import number

FIRST, SECOND = UUID(int=1), UUID(int=2)


def stage(
    connection: Connection,
    *bodies: str | None,
    queue: str = "orders",
    stream: str = "s",
    part: UUID = FIRST,
    first: int = 1,
    **columns: list[Any],
) -> list[tuple[Any, ...]]:
    """Stage messages at places from `first` on; return the refused ones."""
    names = "".join(f", p_{name} => %s" for name in columns)
    return connection.execute(
        f"select place, reason from skipmq.stage_messages(%s, %s, %s, %s::bigint[], %s{names})",
        (
            queue, stream, part, list(range(first, first + len(bodies))), list(bodies),
            *columns.values(),
        ),
    ).fetchall()  # fmt: skip


def send(
    connection: Connection,
    batch: int | None,
    count: int,
    *parts: UUID,
    queue: str = "orders",
    limit: int = 100,
    depth: int | None = None,
) -> Any:
    """Send the next messages of a batch of the stream `s`; return how many."""
    return number(
        connection,
        "select skipmq.send_staged(%s, 's', %s, %s::uuid[], %s, %s, %s)",
        queue,
        batch,
        list(parts or (FIRST,)),
        count,
        limit,
        depth,
    )


def staged(connection: Connection) -> Any:
    """Return the number of staged messages."""
    return number(connection, "select count(*) from skipmq.staged_message")
