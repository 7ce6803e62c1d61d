"""The vocabulary of the tests of schedules in SQL."""

from typing import Any

from support.postgres import Connection
from support.sql import number


def create(connection: Connection, name: str = "tick", queue: str = "orders", **more: Any) -> bool:
    """Create a schedule of a queue, with further parameters by name; return whether it is new."""
    given = {"expression": "every minute", "body": "x", **more}
    named = ", ".join(f"p_{each} => %s" for each in given)
    call = f"select skipmq.create_schedule(%s, %s, {named})"
    return bool(number(connection, call, name, queue, *given.values()))


def advance_to(
    connection: Connection, tick: str | None, following: str | None, failure: str | None = None
) -> bool:
    """Advance the schedule, with times relative to its own; return whether it was."""
    return bool(
        number(
            connection,
            "select skipmq.advance_schedule(s.account, s.region, s.name, s.next_at,"
            " s.next_at + %s::interval, s.next_at + %s::interval, %s)"
            " from skipmq.schedule s where s.name = 'tick'",
            tick,
            following,
            failure,
        )
    )


def ticks(connection: Connection) -> list[tuple[Any, ...]]:
    """Return whether each tick sent a message, and why not, the newest first."""
    return connection.execute(
        "select message_id is not null, failure"
        " from skipmq.schedule_ticks('000000000000', 'us-east-1', 'tick', 1000)"
    ).fetchall()
