"""What analytics asks of a database: the history, the queues, and the server itself."""

import contextlib
import threading
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from skipmq.database import session as database
from skipmq.database.session import Session

_SIZE = "h.body_bytes::bigint + h.attribute_bytes"
_METADATA = "skipmq_views.history_metadata h"
# Less than the idle_in_transaction_session_timeout of the role skipmq_reader.
_SIGN_OF_LIFE = 10.0


@dataclass(frozen=True, slots=True)
class Server:
    """What a server says of itself: its database, timeline and time.

    The timeline is 0 where nobody knows it. Below `horizon` every transaction is over.
    """

    database: str
    timeline: int
    horizon: int
    now: datetime


@dataclass(frozen=True, slots=True)
class Part:
    """What the database counted in the transactions from `first` to before `until`.

    `ids` is the sum of the ids; bytes are those of bodies and attributes, `biggest` those of one
    message.
    """

    first: int
    until: int
    rows: int
    ids: int
    bytes: int
    biggest: int


def server(session: Session) -> Server:
    """Return the server's state; what is below its horizon survives a crash.

    On a primary an empty message is committed after the horizon is read, and with it everything
    that others had committed without waiting for the disk or for a standby. A standby shows what is
    on its own disk; what its failover undoes the timeline shows.
    """
    standby, timeline, now, horizon, system = _one(
        session,
        "select s.standby, coalesce(s.timeline, 0), clock_timestamp(),"
        " pg_snapshot_xmin(pg_current_snapshot())::text::bigint,"
        " (select system_identifier::text from pg_control_system())"
        " from skipmq_views.server s",
    )
    if not standby:
        session.execute("set synchronous_commit = on")
        session.execute("select pg_logical_emit_message(true, 'skipmq', 'export')")
    return Server(f"{system}/{session.info.dbname}", timeline, horizon, now)


def now(session: Session) -> datetime:
    """Return the database's time, in whole seconds."""
    (moment,) = _one(session, "select date_trunc('second', clock_timestamp())")
    return moment  # type: ignore[no-any-return]


def days(session: Session) -> list[date]:
    """Return the days (UTC) that have a partition of the history, in order."""
    return _column(
        session,
        "select to_date(right(c.relname, 8), 'YYYYMMDD') from pg_inherits i"
        " join pg_class c on c.oid = i.inhrelid join pg_class p on p.oid = i.inhparent"
        " join pg_namespace n on n.oid = p.relnamespace"
        " where n.nspname = 'skipmq' and p.relname = 'history' and c.relname ~ '_[0-9]{8}$'"
        " order by 1",
    )


def dropped_days(session: Session) -> set[date]:
    """Return the days that the database has dropped, since an export has them."""
    return set(_column(session, "select a.day from skipmq_views.archived_day a where a.dropped"))


def record_archived_day(session: Session, day: date, rows: int, until: int) -> bool:
    """Record that an export has all of a day: so many rows, of transactions below `until`.

    Returns false where the database counts otherwise, which then takes back what was recorded.
    """
    (done,) = _one(session, "select skipmq.record_archived_day(%s, %s, %s)", day, rows, until)
    return bool(done)


def first_transaction(session: Session, since: datetime, until: datetime | None = None) -> int:
    """Return the first transaction of what was settled in a time, the end not in it; 0: none."""
    (first,) = _one(
        session,
        f"select min(h.xid) from {_METADATA} where h.settled_at >= %s"
        " and h.settled_at < coalesce(%s::timestamptz, 'infinity')",
        since,
        until,
    )
    return first or 0


def count(session: Session, first: int, until: int, width: int) -> list[Part]:
    """Count the history between two transactions, in parts of `width` transactions.

    Parts without rows are left out.
    """
    rows = session.execute(
        f"select (h.xid - %(first)s) / %(width)s, count(*), sum(h.id)::text, sum({_SIZE}),"
        f" max({_SIZE}) from {_METADATA} where h.xid >= %(first)s and h.xid < %(until)s"
        " group by 1 order by 1".encode(),
        {"first": first, "until": until, "width": width},
    )
    return [
        Part(
            first + part * width,
            min(first + (part + 1) * width, until),
            rows,
            int(ids),
            int(size),
            int(biggest),
        )
        for part, rows, ids, size, biggest in rows
    ]


def extent(session: Session, condition: str) -> Part | None:
    """Count the history that fulfils a condition, None if there is none; `ids` is 0."""
    rows, first, last, size, biggest = _one(
        session,
        f"select count(*), min(h.xid), max(h.xid), sum({_SIZE}), max({_SIZE})"
        f" from {_METADATA} where {condition}",
    )
    return Part(first, last + 1, rows, 0, int(size), biggest) if rows else None


def total(session: Session, first: int, until: int) -> tuple[int, int, int]:
    """Return rows, the sum of ids and the sum of settled_at (microseconds) of a window."""
    rows, ids, moments = _one(
        session,
        "select count(*), coalesce(sum(h.id), 0)::text,"
        " coalesce(sum((extract(epoch from h.settled_at) * 1000000)::bigint), 0)::text"
        f" from {_METADATA} where h.xid >= %s and h.xid < %s",
        first,
        until,
    )
    return rows, int(ids), int(moments)


def count_by_queue_and_day(session: Session, until: int) -> dict[tuple[date, str], int]:
    """Count what transactions before that one settled, by day (UTC) and queue."""
    rows = session.execute(
        "select (h.settled_at at time zone 'UTC')::date, h.queue, count(*)"
        f" from {_METADATA} where h.xid < %s group by 1, 2".encode(),
        (until,),
    )
    return {(day, queue): number for day, queue, number in rows}


def of_queue_and_day(queue: str, day: date, until: int) -> str:
    """Return the condition on what transactions before that one settled of a queue on a day."""
    name = queue.replace("'", "''")
    since = f"timestamptz '{day.isoformat()} 00:00:00+00'"
    return (
        f"queue = '{name}' and xid < {until} and settled_at >= {since}"
        f" and settled_at < {since} + interval '1 day'"
    )


def rows(
    url: str, columns: Sequence[str], condition: str, fetch: int, *, null: Collection[str] = ()
) -> Iterator[list[tuple[Any, ...]]]:
    """Give the rows of the history that fulfil a condition, `fetch` at a time.

    They come through a cursor of the server: `columns`, of which those in `null` are not read, and
    the day (UTC) of settlement.
    """
    names = ", ".join(f"null::text as {name}" if name in null else name for name in columns)
    query = (
        f"select {names}, (settled_at at time zone 'UTC')::date"
        f" from skipmq_views.history where {condition}"
    )
    with (
        database.connect(url, "skipmq stream") as session,
        session.transaction(),
        session.cursor("settled", binary=True) as cursor,
    ):
        cursor.execute(query.encode())
        while found := cursor.fetchmany(fetch):
            yield found


def queue_names(session: Session) -> set[str]:
    """Return the names of all queues that there are or were."""
    return set(_column(session, "select distinct queue from skipmq_views.queue"))


def queues_without_history(session: Session) -> list[str]:
    """Return the names of queues whose history mode is or was `off`."""
    return _column(
        session,
        "select distinct queue from skipmq_views.queue where history_mode = 'off' order by 1",
    )


def queue_settings(session: Session, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return these columns of `skipmq_views.queue` for each queue that is there."""
    return session.execute(
        f"select {', '.join(columns)} from skipmq_views.queue where retired_at is null"
        " order by account, region, queue".encode()
    ).fetchall()


@contextlib.contextmanager
def exported_snapshot(session: Session) -> Iterator[tuple[str, str]]:
    """Hold a snapshot during the block; give its name, and its text as PostgreSQL writes it.

    Other sessions of the same server adopt it by its name.
    """
    session.execute("begin isolation level repeatable read, read only")
    name, text = _one(session, "select pg_export_snapshot(), pg_current_snapshot()::text")
    over = threading.Event()
    alive = threading.Thread(target=_keep_alive, args=(session, over), daemon=True)
    alive.start()
    try:
        yield name, text
    finally:
        over.set()
        alive.join()
        with contextlib.suppress(database.Error):
            session.execute("rollback")


def adopt_snapshot(name: str) -> str:
    """Return the statements by which a session's transaction adopts an exported snapshot."""
    quoted = name.replace("'", "''")
    return (
        "set transaction isolation level repeatable read, read only;"
        f" set transaction snapshot '{quoted}'"
    )


def _keep_alive(session: Session, over: threading.Event) -> None:
    with contextlib.suppress(database.Error):
        while not over.wait(_SIGN_OF_LIFE):
            session.execute("select 1")


def _one(session: Session, query: str, *parameters: Any) -> tuple[Any, ...]:
    # Without parameters a % stays itself.
    row = session.execute(query.encode(), parameters or None).fetchone()
    assert row is not None
    return row


def _column(session: Session, query: str) -> list[Any]:
    return [value for (value,) in session.execute(query.encode()).fetchall()]
