"""Counting and erasing messages by a condition: live ones, and those of the history.

The condition is SQL of the owner of the schema, who may do anything anyway.
"""

import contextlib
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from typing import Any

import psycopg

from skipmq.database.session import Session

# With the columns of the history.
_LIVE = (
    "(select null::timestamptz as settled_at, m.sent_at, m.first_received_at, null::bigint as xid,"
    " m.id, m.queue_id, m.account, m.region, m.queue, m.fifo, m.receive_count, m.body_bytes,"
    " m.attribute_bytes, m.message_id, null::text as outcome, m.group_id, m.deduplication_id,"
    " m.sender, m.trace_header, null::text as node, m.attributes, m.body"
    " from skipmq_views.message m where m.queue_id <> 0)"
)
_HISTORY = "skipmq_views.history"
_DAY = "to_char(settled_at at time zone 'UTC', 'YYYY-MM-DD')"


class ConditionError(Exception):
    """PostgreSQL does not understand the condition; the message says why."""


def count_live(session: Session, condition: str) -> list[tuple[str, int]]:
    """Return the number of live messages by queue."""
    return _rows(
        session, f"select queue, count(*) from {_LIVE} h {_where(condition)} group by 1 order by 1"
    )


def count_history(session: Session, condition: str) -> list[tuple[str, str, int]]:
    """Return the number of settled messages by queue and day (UTC)."""
    return _rows(
        session,
        f"select queue, {_DAY}, count(*) from {_HISTORY} h {_where(condition)}"
        " group by 1, 2 order by 2, 1",
    )


def live(session: Session, condition: str) -> list[tuple[int, list[int]]]:
    """Return the ids of live messages by queue (its number)."""
    return _rows(
        session,
        f"select queue_id, array_agg(id order by id) from {_LIVE} h {_where(condition)} group by 1",
    )


def erase_live(session: Session, queue_id: int, ids: Sequence[int]) -> None:
    """Erase live messages of a queue; they leave no row of history."""
    session.execute("select skipmq.erase_messages(%s::int, %s::bigint[])", (queue_id, list(ids)))


def days(session: Session, condition: str) -> list[date]:
    """Return the days (UTC) on which such messages were settled."""
    rows = _rows(
        session,
        f"select distinct ({_DAY})::date from {_HISTORY} h {_where(condition)} order by 1",
    )
    return [day for (day,) in rows]


def erase_day(session: Session, condition: str, day: date) -> int:
    """Erase such messages of the history of a day; return how many these were."""
    with _understood():
        return session.execute(
            "with doomed as materialized ("
            f"select settled_at, id, queue_id from {_HISTORY} h {_where(condition, day)})"
            " delete from skipmq.history h using doomed d where h.settled_at = d.settled_at"
            f" and h.id = d.id and h.queue_id = d.queue_id and {_within(day, 'h')}".encode(),
            prepare=True,
        ).rowcount


def erase_unsent_replays(session: Session) -> int:
    """Erase what replays have staged and not sent; return how many messages these were."""
    return session.execute("delete from skipmq.replay_message where sent_at is null").rowcount


def vacuum(session: Session, tables: Sequence[str]) -> None:
    """Vacuum those of these tables of the schema that exist."""
    rows = session.execute(
        "select c.relname from pg_class c"
        " where c.relnamespace = 'skipmq'::regnamespace and c.relname = any (%s)",
        (list(tables),),
    )
    for (name,) in rows.fetchall():
        session.execute(psycopg.sql.SQL("vacuum skipmq.{}").format(psycopg.sql.Identifier(name)))


def _where(condition: str, day: date | None = None) -> str:
    # The line may end with a comment.
    settled = f" and {_within(day, 'h')}" if day else ""
    return f"where ({condition}\n){settled}"


def _within(day: date, table: str) -> str:
    first, end = (f"timestamptz '{d} 00:00:00+00'" for d in (day, day + timedelta(days=1)))
    return f"{table}.settled_at >= {first} and {table}.settled_at < {end}"


def _rows(session: Session, query: str) -> list[Any]:
    """Return what a query finds; a condition that is more than one cannot do anything beside it."""
    with _understood(), session.transaction():
        session.execute("set transaction read only")
        # Prepared, it is one statement. Without parameters a % stays itself.
        return session.execute(query.encode(), prepare=True).fetchall()


@contextlib.contextmanager
def _understood() -> Iterator[None]:
    """Turn what PostgreSQL says of a condition into ConditionError."""
    try:
        yield
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedTable):
        raise
    except psycopg.errors.ReadOnlySqlTransaction as error:
        raise ConditionError("the condition writes: it may only say which messages") from error
    except (psycopg.ProgrammingError, psycopg.DataError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ConditionError(f"PostgreSQL does not understand this: {reason}") from error
