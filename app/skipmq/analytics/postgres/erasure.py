"""Counting and erasure of live and settled messages by an SQL condition.

The condition needs no sanitizing: it comes from the owner of the schema, who has all rights.
"""

import contextlib
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any

import psycopg

from skipmq.analytics.postgres.history import within
from skipmq.database.session import Session

# Live messages with the columns of the history.
_LIVE = (
    "(select null::timestamptz as settled_at, m.sent_at, m.first_received_at, null::bigint as xid,"
    " m.id, m.queue_id, m.account, m.region, m.queue, m.fifo, m.receive_count, m.body_bytes,"
    " m.attribute_bytes, m.message_id, null::text as outcome, m.group_id, m.deduplication_id,"
    " m.sender, m.trace_header, null::text as node, m.attributes, m.body"
    " from skipmq_views.message m where m.queue_id <> 0)"
)
# Staged messages with the columns of the history.
_STAGED = (
    "(select null::timestamptz as settled_at, s.staged_at as sent_at,"
    " null::timestamptz as first_received_at, null::bigint as xid, null::bigint as id,"
    " null::bigint as queue_id, split_part(s.target, '/', 1) as account,"
    " split_part(s.target, '/', 2) as region, split_part(s.target, '/', 3) as queue,"
    " s.target like '%.fifo' as fifo, 0 as receive_count, octet_length(s.body) as body_bytes,"
    " coalesce(octet_length(s.attributes), 0) as attribute_bytes, s.message_id,"
    " null::text as outcome, s.group_id, s.deduplication_id, null::text as sender, s.trace_header,"
    " null::text as node, s.attributes, s.body, s.ctid as row"
    " from skipmq.staged_message s)"
)
# Messages for HTTP endpoints with the columns of the history; their queue is the topic.
_DELIVERIES = (
    "(select null::timestamptz as settled_at, null::timestamptz as sent_at,"
    " null::timestamptz as first_received_at, null::bigint as xid, null::bigint as id,"
    " null::bigint as queue_id, t.account, t.region, t.name as queue, false as fifo,"
    " d.attempt as receive_count, octet_length(d.body) as body_bytes,"
    " coalesce(octet_length(d.attributes), 0) as attribute_bytes, d.message_id,"
    " null::text as outcome, null::text as group_id, null::text as deduplication_id,"
    " null::text as sender, null::text as trace_header, null::text as node, d.attributes, d.body,"
    " d.ctid as row from skipmq.http_delivery d join skipmq.topic t using (topic_id))"
)
# Those that wait to be sent, by their place, with their table.
WAITING = {"staged": (_STAGED, "staged_message"), "http": (_DELIVERIES, "http_delivery")}
_HISTORY = "skipmq_views.history"
# The tables that have bodies, attributes or groups of messages, or filters of them. A partition of
# the history has those of the history.
TABLES = ("history", "http_delivery", "message", "move_task", "noisy_tenant", "staged_message")
# Those of settings, which have the texts that an operator wrote, and are left.
SETTINGS = ("paused_group", "schedule", "subscription", "topic")
_DAY = "to_char(settled_at at time zone 'UTC', 'YYYY-MM-DD')"


class ConditionError(Exception):
    """PostgreSQL rejects the condition; the message contains the reason."""


def count_live(session: Session, condition: str) -> list[tuple[str, int]]:
    """Return the number of live messages by queue."""
    return _rows(
        session, f"select queue, count(*) from {_LIVE} h {_where(condition)} group by 1 order by 1"
    )


def count_waiting(session: Session, place: str, condition: str) -> list[tuple[str, int]]:
    """Return the number of messages of WAITING, by queue or topic."""
    relation, _ = WAITING[place]
    return _rows(
        session,
        f"select queue, count(*) from {relation} h {_where(condition)} group by 1 order by 1",
    )


def count_history(session: Session, condition: str) -> list[tuple[str, str, int]]:
    """Return the number of settled messages by queue and day (UTC)."""
    return _rows(
        session,
        f"select queue, {_DAY}, count(*) from {_HISTORY} h {_where(condition)}"
        " group by 1, 2 order by 2, 1",
    )


def live(session: Session, condition: str) -> list[tuple[int, list[int], list[Any]]]:
    """Return the IDs and message IDs of live messages by queue ID."""
    return _rows(
        session,
        "select queue_id, array_agg(id order by id), array_agg(message_id order by id)"
        f" from {_LIVE} h {_where(condition)} group by 1",
    )


def erase_live(
    session: Session, queue_id: int, ids: Sequence[int], message_ids: Sequence[Any]
) -> None:
    """Erase live messages of a queue without recording them in the history."""
    session.execute(
        "select skipmq.erase_messages(%s::bigint, %s::bigint[], %s::uuid[])",
        (queue_id, list(ids), list(message_ids)),
    )


def erase_waiting(session: Session, place: str, condition: str) -> int:
    """Erase matching messages of WAITING; return their number.

    A batch of which some are missing before it is sent is refused, and written again by its query.
    """
    relation, table = WAITING[place]
    with _condition_errors():
        return session.execute(
            "with matching as materialized ("
            f"select row from {relation} h {_where(condition)})"
            f" delete from skipmq.{table} s using matching m where s.ctid = m.row".encode(),
            prepare=True,
        ).rowcount


def note_archived(session: Session, lake: str, day: date, rows: int) -> None:
    """Subtract rows from those that are recorded of a lake and a day."""
    session.execute(
        "update skipmq.archived_day set rows = greatest(rows - %s, 0) where day = %s and lake = %s",
        (rows, day, lake),
    )


def erase_filters(session: Session) -> None:
    """Erase the texts that ended tasks looked for, the marks of tenants, and ended rates of groups.

    They have no messages, but may have what identifies a person.
    """
    session.execute(
        "update skipmq.move_task set body_contains = '(erased)', attribute_name = null,"
        " attribute_value = null, filter = null"
        " where status not in ('RUNNING', 'CANCELLING') and (body_contains is not null"
        " or attribute_value is not null or filter is not null)"
    )
    session.execute("delete from skipmq.noisy_tenant")
    session.execute("delete from skipmq.receive_rate where used_until <= skipmq.clock()")


def days(session: Session, condition: str) -> list[date]:
    """Return the days (UTC) on which matching messages were settled."""
    rows = _rows(
        session,
        f"select distinct ({_DAY})::date from {_HISTORY} h {_where(condition)} order by 1",
    )
    return [day for (day,) in rows]


def erase_day(session: Session, condition: str, day: date) -> int:
    """Erase matching messages from the history of a day, but not their IDs; return their number."""
    with _condition_errors():
        row = session.execute(
            "with matching as materialized ("
            f"select settled_at, id, queue_id from {_HISTORY} h {_where(condition, day)}),"
            " erased as ("
            "delete from skipmq.history h using matching d where h.settled_at = d.settled_at"
            f" and h.id = d.id and h.queue_id = d.queue_id and"
            f" {within(day, column='h.settled_at')}"
            " returning h.message_id, h.queue_id),"
            " noted as (insert into skipmq.erased_message (message_id, queue_id, erased_at)"
            " select distinct on (message_id) message_id, queue_id, clock_timestamp() from erased"
            " on conflict do nothing)"
            " select count(*) from erased".encode(),
            prepare=True,
        ).fetchone()
    assert row is not None
    return int(row[0])


def vacuum(session: Session, tables: Sequence[str]) -> None:
    """Vacuum those of these tables that exist in the schema."""
    rows = session.execute(
        "select c.relname from pg_class c"
        " where c.relnamespace = 'skipmq'::regnamespace and c.relname = any (%s)",
        (list(tables),),
    )
    for (name,) in rows.fetchall():
        session.execute(psycopg.sql.SQL("vacuum skipmq.{}").format(psycopg.sql.Identifier(name)))


def _where(condition: str, day: date | None = None) -> str:
    # The line break ends a comment in the condition.
    settled = f" and {within(day)}" if day else ""
    return f"where ({condition}\n){settled}"


def _rows(session: Session, query: str) -> list[Any]:
    """Run a query, in which the condition cannot write or add statements."""
    with _condition_errors(), session.transaction():
        session.execute("set transaction read only")
        # A prepared query is a single statement. Without parameters, % needs no escaping.
        return session.execute(query.encode(), prepare=True).fetchall()


@contextlib.contextmanager
def _condition_errors() -> Iterator[None]:
    try:
        yield
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedTable):
        raise
    except psycopg.errors.ReadOnlySqlTransaction as error:
        raise ConditionError("the condition must not write") from error
    except (psycopg.ProgrammingError, psycopg.DataError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ConditionError(f"PostgreSQL rejected the condition: {reason}") from error
