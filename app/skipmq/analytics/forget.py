"""Erasing messages wherever they are: live, in the history, in the lake.

The condition is SQL over the columns of the history, understood by PostgreSQL and by Spark alike;
live messages have no `settled_at`, `outcome`, `node` and `xid`. Live messages come first: what is
settled meanwhile is then in the history, and an export waits for the lake's lock.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from hashlib import sha256
from typing import Any, TypeAlias

import psycopg
from psycopg import sql

from skipmq.analytics.jdbc import within
from skipmq.analytics.lake import Lake

# Messages erased in one transaction.
CHUNK = 500
Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

# With the columns of the history.
_LIVE = (
    "(select null::timestamptz as settled_at, m.sent_at, m.first_received_at, null::bigint as xid,"
    " m.id, m.queue_id, m.account, m.region, m.queue, m.fifo, m.receive_count, m.body_bytes,"
    " m.attribute_bytes, m.message_id, null::text as outcome, m.group_id, m.deduplication_id,"
    " m.sender, m.trace_header, null::text as node, m.attributes, m.body"
    " from skipmq_views.message m where m.queue_id <> 0)"
)
_HISTORY = "skipmq_views.history"


@dataclass(frozen=True, slots=True)
class Found:
    """Messages of a place (`live`, `history`, `lake`), queue and day of settlement (none: live)."""

    place: str
    queue: str
    day: str | None
    messages: int


def look(connection: Connection, lake: Lake | None, condition: str) -> list[Found]:
    """Count the messages that fulfil the condition, in all places.

    Raises psycopg.Error or a Spark error when the condition cannot be understood.
    """
    live = _rows(
        connection,
        "select queue, null, count(*) from {} h where ({}\n) group by 1 order by 1",
        _LIVE,
        condition,
    )
    settled = _rows(
        connection,
        "select queue, to_char(settled_at at time zone 'UTC', 'YYYY-MM-DD'), count(*)"
        " from {} h where ({}\n) group by 1, 2 order by 2, 1",
        _HISTORY,
        condition,
    )
    found = [Found("live", *row) for row in live] + [Found("history", *row) for row in settled]
    if lake is not None:
        rows = (
            lake.frame()
            .where(condition)
            .groupBy("queue", "day")
            .count()
            .orderBy("day", "queue")
            .collect()
        )
        found += [Found("lake", row["queue"], str(row["day"]), row["count"]) for row in rows]
    return found


def erase(connection: Connection, lake: Lake | None, condition: str) -> Iterator[tuple[str, int]]:
    """Erase those messages; give the place and the number of each step that is done.

    `connection` is the schema's owner's, in autocommit. Raises as `look` does; what was given is
    erased then, and it can be run again.
    """
    # What a replay had not sent yet it stages again, from what is left.
    if _one(connection, "select to_regclass('skipmq_replay.message') is not null"):
        unsent = connection.execute("delete from skipmq_replay.message where sent_at is null")
        yield "replay", unsent.rowcount
    for queue_id, fifo, ids in _live(connection, condition):
        with connection.transaction():
            _settle(connection, queue_id, ids, fifo=fifo)
            # The rows of history that this leaves.
            connection.execute(
                "delete from skipmq.history h where h.id = any (%s)"
                " and h.xid = pg_current_xact_id()::text::bigint",
                (ids,),
            )
        yield "live", len(ids)
    for day in _days(connection, condition):
        yield "history", _erase_day(connection, condition, day)
    if lake is not None:
        # The condition itself may name a person.
        told = f"forget {sha256(condition.encode()).hexdigest()[:16]}"
        yield "lake", lake.erase(condition, reason=told)


def vacuum(connection: Connection, days: Sequence[str]) -> None:
    """Have the space of erased rows overwritten: until then they are in the files of the tables.

    Write-ahead log and backups keep them for as long as they are kept.
    """
    names = ["message", "history_default", *(f"history_{day.replace('-', '')}" for day in days)]
    for name in names:
        if _one(connection, "select to_regclass(%s) is not null", f"skipmq.{name}"):
            connection.execute(sql.SQL("vacuum skipmq.{}").format(sql.Identifier(name)))


def _rows(connection: Connection, query: str, source: str, condition: str) -> list[Any]:
    # The condition is the owner's, who may do anything anyway; without parameters `%` stays itself.
    return connection.execute(query.format(source, condition).encode()).fetchall()


def _one(connection: Connection, query: str, *parameters: Any) -> Any:
    row = connection.execute(query.encode(), parameters).fetchone()
    return row and row[0]


def _live(connection: Connection, condition: str) -> Iterator[tuple[int, bool, list[int]]]:
    """Give the ids of live messages, by queue and in chunks."""
    queues = _rows(
        connection,
        "select queue_id, fifo, array_agg(id order by id) from {} h where ({}\n) group by 1, 2",
        _LIVE,
        condition,
    )
    for queue_id, fifo, ids in queues:
        for start in range(0, len(ids), CHUNK):
            yield queue_id, fifo, ids[start : start + CHUNK]


def _settle(connection: Connection, queue_id: int, ids: list[int], *, fifo: bool) -> None:
    """Take messages out of a queue as a purge does: numbers and groups stay right."""
    groups = _one(connection, "select skipmq.lock_groups(%s, %s)", queue_id, ids) if fifo else None
    connection.execute(
        "select skipmq.settle(array(select m.ctid from skipmq.message m"
        " where m.id = any (%s) and m.queue_id = %s order by m.id for update), 'purged')",
        (ids, queue_id),
    )
    if groups:
        connection.execute("select skipmq.refresh_groups(%s, %s)", (queue_id, groups))


def _days(connection: Connection, condition: str) -> list[str]:
    rows = _rows(
        connection,
        "select distinct to_char(settled_at at time zone 'UTC', 'YYYY-MM-DD')"
        " from {} h where ({}\n) order by 1",
        _HISTORY,
        condition,
    )
    return [day for (day,) in rows]


def _erase_day(connection: Connection, condition: str, day: str) -> int:
    settled = date.fromisoformat(day)
    query = (
        "with doomed as materialized ("  # noqa: S608 - a day, our own names, the owner's condition.
        f"select settled_at, id, queue_id from {_HISTORY} h where {within(settled)}"
        f" and ({condition}\n))"
        f" delete from skipmq.history h using doomed d where"
        f" {within(settled, column='h.settled_at')}"
        " and h.id = d.id and h.queue_id = d.queue_id and h.settled_at = d.settled_at"
    )
    return connection.execute(query.encode()).rowcount


Report: TypeAlias = Mapping[str, Any]


def report(before: Sequence[Found], after: Sequence[Found], erased: Mapping[str, int]) -> Report:
    """Return what was found, what was erased by place, and what a second look finds."""

    def told(found: Sequence[Found]) -> list[Mapping[str, Any]]:
        return [
            {"place": f.place, "queue": f.queue, "day": f.day, "messages": f.messages}
            for f in found
        ]

    return {"found": told(before), "erased": dict(erased), "second_look": told(after)}
