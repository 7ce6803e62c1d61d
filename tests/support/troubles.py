"""The vocabulary of the tests of troubles in SQL."""

from typing import Any

from psycopg.rows import dict_row

from support.postgres import Connection
from support.sql import Queue
from support.sql import advance as move_clock


def troubles(owner: Connection, limit: int = 100) -> list[dict[str, Any]]:
    """Return what needs attention, once the sums are up to date."""
    owner.execute("select skipmq.fold_counts()")
    cursor = owner.cursor(row_factory=dict_row)
    return cursor.execute(
        "select * from skipmq.queue_troubles('000000000000', 'us-east-1', %s)", (limit,)
    ).fetchall()


def kinds(owner: Connection) -> dict[str, str]:
    return {each["queue"]: each["trouble"] for each in troubles(owner)}


def advance(owner: Connection, by: str) -> None:
    """Move the clock, after what happened was added up under its minute."""
    owner.execute("select skipmq.fold_counts()")
    move_clock(owner, by)


def received(owner: Connection, queue: Queue, number: int = 1, event: str = "received") -> None:
    """Count receives, as nodes do."""
    owner.execute(
        "insert into skipmq.queue_delta (at, queue_id, change, event, number)"
        " values (skipmq.write_time(), %s, 0, %s, %s)",
        (queue.id, event, number),
    )
