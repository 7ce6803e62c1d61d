"""The SQL that reads the history, the queues and the state of the server."""

import contextlib
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from skipmq.database import session as database
from skipmq.database.partitions import QUEUE_BITS
from skipmq.database.session import Session, one
from skipmq.protocol.identity import QueueName

_SIZE = "h.body_bytes::bigint + h.attribute_bytes"
_METADATA = "skipmq_views.history_metadata h"
# Messages but those that were copied to another partition, and will soon be deleted here.
NOT_MOVED = (
    "queue_id <> all"
    " (array(select q.queue_id from skipmq_views.queue q where q.retired_as = 'moved'))"
)
# Less than the idle_in_transaction_session_timeout of the role skipmq_reader.
_KEEPALIVE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Server:
    """The state of a server: the identifier of its database, its timeline, horizon and time.

    The timeline is 0 if unknown. All transactions below `horizon` have ended. `lag` is None on a
    primary, or unknown; on a standby the age in seconds of what it has applied, 0 if that is all
    that it received.
    """

    database: str
    timeline: int
    horizon: int
    now: datetime
    lag: float | None


@dataclass(frozen=True, slots=True)
class Part:
    """The counts of the transactions from `first` to before `until`.

    `bytes` is the size of bodies and attributes, `biggest` that of the largest message.
    """

    first: int
    until: int
    rows: int
    bytes: int
    biggest: int


@dataclass(frozen=True, slots=True)
class Generation:
    """A generation of a queue: its begin, and its end (purged, deleted or moved) if it has one."""

    queue: QueueName
    created_at: datetime
    retired_at: datetime | None
    retired_as: str | None


@dataclass(frozen=True, slots=True)
class RecordedDay:
    """The record of an archived day: its rows, when they were compared, whether it is dropped.

    `lake` is the identifier of the lake's table, `place` its URL.
    """

    rows: int
    at: datetime
    dropped: bool
    lake: str
    place: str


def server(session: Session) -> Server:
    """Return the server's state; transactions below its horizon survive a crash.

    On a primary, a logical message is committed synchronously after the horizon is read, which also
    flushes and replicates all asynchronous commits before it. A standby replays WAL that it has
    flushed; a failover that undoes some of it changes the timeline.
    """
    standby, timeline, now, horizon, lag, system = one(
        session,
        "select s.standby, coalesce(s.timeline, 0), clock_timestamp(),"
        " pg_snapshot_xmin(pg_current_snapshot())::text::bigint,"
        " case when not s.standby then null"
        " when pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() then 0"
        " else extract(epoch from clock_timestamp() - pg_last_xact_replay_timestamp()) end::float8,"
        " (select system_identifier::text from pg_control_system())"
        " from skipmq_views.server s",
    )
    if not standby:
        session.execute("set synchronous_commit = on")
        session.execute("select pg_logical_emit_message(true, 'skipmq', 'export')")
    return Server(f"{system}/{session.info.dbname}", timeline, horizon, now, lag)


def identity(session: Session) -> str:
    """Return what a database has in common with its standbys alone."""
    return str(
        one(
            session,
            "select format('%s/%s', s.system_identifier, d.oid) from pg_control_system() s,"
            " pg_database d where d.datname = current_database()",
        )[0]
    )


def partition_addresses(session: Session) -> list[str] | None:
    """Return the addresses of a router's partitions, None for a database that is no router."""
    if not one(session, "select to_regnamespace('skipmq_router') is not null")[0]:
        return None
    (addresses,) = one(session, "select addresses from skipmq.partition_map()")
    return list(addresses)


def now(session: Session) -> datetime:
    """Return the database's time, in whole seconds."""
    (moment,) = one(session, "select date_trunc('second', clock_timestamp())")
    return moment  # type: ignore[no-any-return]


def first_counted(session: Session) -> datetime | None:
    """Return when the first counted period with an event begins; they are kept for seven days."""
    (moment,) = one(session, "select min(start) from skipmq_views.queue_period")
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


def recorded_days(session: Session) -> dict[date, RecordedDay]:
    """Return the days that exports have recorded as archived, also those dropped since."""
    rows = session.execute(
        "select a.day, a.rows, a.archived_at, a.dropped, a.lake, a.place"
        " from skipmq_views.archived_day a"
    )
    return {day: RecordedDay(*others) for day, *others in rows}


def archive(recorded: Mapping[date, RecordedDay]) -> RecordedDay | None:
    """Return the last record, whose lake is the archive: other lakes record nothing."""
    return max(recorded.values(), key=lambda each: each.at, default=None)


def record_archived_day(  # noqa: PLR0913, PLR0917 - a record.
    session: Session,
    day: date,
    rows: int,
    until: int,
    lake: str,
    place: str,
    *,
    replaces: bool = False,
) -> bool:
    """Record that a lake has all rows of a day, of transactions below `until`.

    Returns False, and removes an earlier record, if the database has another number of rows; also
    if another lake is the archive, unless this one `replaces` it.
    """
    query = "select skipmq.record_archived_day(%s, %s, %s, %s, %s, %s)"
    (recorded,) = one(session, query, day, rows, until, lake, place, replaces)
    return bool(recorded)


def first_transaction(session: Session, since: datetime, until: datetime | None = None) -> int:
    """Return the first transaction of messages settled from `since` to before `until`, or 0."""
    (first,) = one(
        session,
        f"select min(h.xid) from {_METADATA} where h.settled_at >= %s"
        " and h.settled_at < coalesce(%s::timestamptz, 'infinity')",
        since,
        until,
    )
    return first or 0


def has_rows(session: Session, day: date) -> bool:
    """Return whether the history has a message settled on a day (UTC)."""
    return bool(one(session, f"select exists (select from {_METADATA} where {within(day)})")[0])


def count(session: Session, first: int, until: int, width: int) -> list[Part]:
    """Count the history between two transactions, in parts of `width` transactions.

    Empty parts are omitted.
    """
    rows = session.execute(
        f"select (h.xid - %(first)s) / %(width)s, count(*), sum({_SIZE}),"
        f" max({_SIZE}) from {_METADATA} where h.xid >= %(first)s and h.xid < %(until)s"
        " group by 1 order by 1".encode(),
        {"first": first, "until": until, "width": width},
    )
    return [
        Part(
            first + part * width,
            min(first + (part + 1) * width, until),
            rows,
            int(size),
            int(biggest),
        )
        for part, rows, size, biggest in rows
    ]


def fingerprint(session: Session, first: int, until: int) -> str:
    """Return a text that differs when the rows between two transactions are others."""
    (text,) = one(
        session,
        "select count(*) || '/'"
        " || coalesce(sum(hashtextextended(h.message_id || h.outcome, h.xid)), 0)"
        f" from {_METADATA} where h.xid >= %s and h.xid < %s",
        first,
        until,
    )
    return str(text)


def extent(session: Session, condition: str) -> Part | None:
    """Count the rows that match a condition; return None if there are none."""
    rows, first, last, size, biggest = one(
        session,
        f"select count(*), min(h.xid), max(h.xid), sum({_SIZE}), max({_SIZE})"
        f" from {_METADATA} where {condition}",
    )
    return Part(first, last + 1, rows, int(size), biggest) if rows else None


def digest(session: Session, conditions: Iterable[str], aggregate: str) -> int:
    """Return the sum of an aggregate over the rows that match each of these conditions."""
    queries = (
        f"select ({aggregate})::text from skipmq_views.history where {condition}"
        for condition in conditions
    )
    return sum(int(one(session, query)[0]) for query in queries)


def count_by_queue_and_day(session: Session, until: int) -> dict[tuple[date, str], int]:
    """Count the messages settled by transactions below `until`, by day (UTC) and queue."""
    rows = session.execute(
        "select (h.settled_at at time zone 'UTC')::date, h.queue, count(*)"
        f" from {_METADATA} where h.xid < %s group by 1, 2".encode(),
        (until,),
    )
    return {(day, queue): number for day, queue, number in rows}


def queue_day_condition(queue: str, day: date, until: int) -> str:
    """Return the condition on a queue's messages settled on a day by transactions below `until`."""
    name = queue.replace("'", "''")
    return f"queue = '{name}' and xid < {until} and {within(day)}"


def within(begin: date, end: date | None = None, column: str = "settled_at") -> str:
    """Return the predicate that a time is from a day to before another (None: the next)."""
    after = end or begin + timedelta(days=1)
    return f"{column} >= {midnight(begin)} and {column} < {midnight(after)}"


def midnight(day: date) -> str:
    """Return the beginning of a day (UTC) as an SQL literal."""
    return f"timestamptz '{day.isoformat()} 00:00:00+00'"


def rows(
    url: str, columns: Sequence[str], condition: str, fetch: int, *, null: Collection[str] = ()
) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the rows of the history that match a condition, `fetch` at a time.

    Reads through a server-side cursor. A row has `columns`, null for those in `null`, the day (UTC)
    of settlement, and the partition.
    """
    names = ", ".join(f"null::text as {name}" if name in null else name for name in columns)
    query = (
        f"select {names}, (settled_at at time zone 'UTC')::date,"
        f" cast(queue_id >> {QUEUE_BITS} as integer)"
        f" from skipmq_views.history where {condition}"
    )
    with (
        database.connect(url, "skipmq stream") as session,
        session.transaction(),
        session.cursor("settled", binary=True) as cursor,
    ):
        cursor.execute(query.encode())
        while fetched := cursor.fetchmany(fetch):
            yield fetched


def queue_names(session: Session) -> set[str]:
    """Return the names of all existing and deleted queues."""
    return set(_column(session, "select distinct queue from skipmq_views.queue"))


def generations(session: Session) -> list[Generation]:
    """Return the generations of all queues."""
    rows = session.execute(
        "select account, region, queue, created_at, retired_at, retired_as from skipmq_views.queue"
    )
    return [Generation(QueueName(*row[:3]), *row[3:]) for row in rows]


def queues_without_history(session: Session) -> list[str]:
    """Return the names of queues whose history mode is or was `off`."""
    return _column(
        session,
        "select distinct queue from skipmq_views.queue where history_mode = 'off' order by 1",
    )


def queue_settings(session: Session, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return these columns of `skipmq_views.queue` for each existing queue."""
    return session.execute(
        f"select {', '.join(columns)} from skipmq_views.queue where retired_at is null".encode()
    ).fetchall()


@contextlib.contextmanager
def exported_snapshot(session: Session) -> Iterator[tuple[str, str]]:
    """Export a snapshot and hold it during the block; yield its name and its pg_snapshot.

    Other sessions of the same server can import it by its name.
    """
    session.execute("begin isolation level repeatable read, read only")
    name, text = one(session, "select pg_export_snapshot(), pg_current_snapshot()::text")
    ended = threading.Event()
    keepalive = threading.Thread(target=_keep_alive, args=(session, ended), daemon=True)
    keepalive.start()
    try:
        yield name, text
    finally:
        ended.set()
        keepalive.join()
        with contextlib.suppress(database.Error):
            session.execute("rollback")


def adopt_snapshot(name: str) -> str:
    """Return the statements with which a transaction imports an exported snapshot."""
    quoted = name.replace("'", "''")
    return (
        "set transaction isolation level repeatable read, read only;"
        f" set transaction snapshot '{quoted}'"
    )


def _keep_alive(session: Session, ended: threading.Event) -> None:
    with contextlib.suppress(database.Error):
        while not ended.wait(_KEEPALIVE_SECONDS):
            session.execute("select 1")


def _column(session: Session, query: str) -> list[Any]:
    return [value for (value,) in session.execute(query.encode()).fetchall()]
