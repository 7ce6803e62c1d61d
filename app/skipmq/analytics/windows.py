"""Cutting the history into windows of transactions that are over, small enough for short reads.

A window [first, until) with `until` at or below the oldest transaction that is still open is final:
nothing can be added to it, so that any number of reads, in whatever snapshots, see the same rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import pairwise
from typing import NamedTuple

from skipmq.analytics.jdbc import Connection, within
from skipmq.analytics.manifest import Window


class Size(NamedTuple):
    """How much to read at once."""

    rows: int
    bytes: int


# A read takes some seconds, as a standby that is to take over cancels longer ones.
READ = Size(25_000, 32 << 20)
# What a task reads in a row.
CHUNK = Size(250_000, 256 << 20)
# Rows of a window, which is a commit of the lake.
WINDOW_ROWS = 2_000_000
# Bytes that a cursor may bring at once, and rows.
FETCH_BYTES, FETCH_ROWS = 32 << 20, 10_000
# Transactions that a window has at first, and parts in which it is counted.
_WIDTH, _PARTS = 1 << 16, 64
# A transaction that there will not be.
_NEVER = (1 << 63) - 1

_COUNT = """
select (h.xid - %(first)s) / %(width)s as part, count(*), sum(h.id)::text,
  sum(h.body_bytes::bigint + h.attribute_bytes), max(h.body_bytes::bigint + h.attribute_bytes)
from skipmq_views.history_metadata h
where h.xid >= %(first)s and h.xid < %(until)s
group by 1
order by 1"""

_EXTENT = (
    "select count(*), min(h.xid), max(h.xid), sum(h.body_bytes::bigint + h.attribute_bytes),"
    " max(h.body_bytes::bigint + h.attribute_bytes)"
    " from skipmq_views.history_metadata h where "
)


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
class Reads:
    """The conditions of reads that have nothing in common, and how many rows to fetch at once.

    `tasks` are enough for all: so many files there are then, and not one for each read.
    """

    conditions: tuple[str, ...]
    fetch: int
    tasks: int


def ask(connection: Connection) -> Server:
    """Return what the server says; what is below its horizon will also be there after a crash.

    On a primary a message of no consequence is committed after the look, and with it everything
    that others had committed without waiting for the disk or for a standby. A standby shows what is
    on its own disk; what its failover undoes the timeline tells.
    """
    row = connection.execute(
        "select s.standby, coalesce(s.timeline, 0), clock_timestamp(),"
        " pg_snapshot_xmin(pg_current_snapshot())::text::bigint,"
        " (select system_identifier::text from pg_control_system())"
        " from skipmq_views.server s"
    ).fetchone()
    assert row is not None
    standby, timeline, now, horizon, system = row
    if not standby:
        connection.execute("set synchronous_commit = on")
        connection.execute("select pg_logical_emit_message(true, 'skipmq', 'export')")
    name = connection.info.dbname
    return Server(f"{system}/{name}", timeline, horizon, now)


def beginning(connection: Connection, days: Sequence[date]) -> int:
    """Return a transaction near the oldest of the history, to begin looking at."""
    for day in days:
        row = connection.execute(
            "select min(h.xid) from skipmq_views.history_metadata h"  # noqa: S608 - our own words.
            f" where {within(day)}"
        ).fetchone()
        if row and row[0] is not None:
            return int(row[0])
    return 0


def windows(
    connection: Connection, position: int, server: Server, near: int = 0
) -> Iterator[tuple[Window, Reads]]:
    """Give the windows from a position up to the server's horizon that have rows, in order.

    The first may begin before its rows do; `near` is where those are. Each is counted in a short
    statement of its own; a transaction is never cut.
    """
    while position < server.horizon:
        until, rows = reach(connection, position, server.horizon, WINDOW_ROWS, near)
        if not rows:
            return
        parts = divide(connection, position, until)
        rows, ids = sum(part.rows for part in parts), sum(part.ids for part in parts)
        window = Window(position, until, rows, ids, server.now, server.timeline)
        yield window, reads(position, until, parts)
        position = until


@dataclass(frozen=True, slots=True)
class Part:
    """What the database counted in the transactions from `first` to before `until`.

    Bytes are those of bodies and attributes, `biggest` those of one message.
    """

    first: int
    until: int
    rows: int
    ids: int
    bytes: int
    biggest: int


def count(connection: Connection, first: int, until: int) -> list[Part]:
    """Count the history in a window, in parts of equal numbers of transactions."""
    width = max(1, -(-(until - first) // _PARTS))
    found = connection.execute(_COUNT, {"first": first, "until": until, "width": width})
    return [
        Part(
            first + part * width,
            min(first + (part + 1) * width, until),
            rows,
            int(ids),
            int(size),
            int(biggest),
        )
        for part, rows, ids, size, biggest in found
    ]


def divide(connection: Connection, first: int, until: int, most: Size = READ) -> list[Part]:
    """Count the history in a window, in parts of at most twice that size.

    Others than queues count transactions too, so that in few of them may be all that was settled. A
    transaction that has more by itself is a part.
    """
    found: list[Part] = []
    for part in count(connection, first, until):
        if _is_much(part, most) and part.until - part.first > 1:
            found += divide(connection, part.first, part.until, most)
        else:
            found.append(part)
    return found


def total(connection: Connection, window: Window) -> tuple[int, int, int]:
    """Return what the database has now of a window, as `Lake.total` does of the lake."""
    row = connection.execute(
        "select count(*), coalesce(sum(h.id), 0)::text,"
        " coalesce(sum((extract(epoch from h.settled_at) * 1000000)::bigint), 0)::text"
        " from skipmq_views.history_metadata h where h.xid >= %s and h.xid < %s",
        (window.first, window.until),
    ).fetchone()
    assert row is not None
    return int(row[0]), int(row[1]), int(row[2])


def reach(
    connection: Connection, first: int, horizon: int, most: int, near: int = 0
) -> tuple[int, int]:
    """Return how far from `first` there are `most` rows and no more, and how many there are.

    A transaction is whole; one that has more by itself is passed all the same. `near` is where rows
    are to be found first.
    """
    begin, width = first, max(0, near - first) + _WIDTH
    while True:
        until = min(begin + width, horizon)
        parts = count(connection, begin, until)
        rows = sum(part.rows for part in parts)
        if rows <= most:
            if until == horizon:
                return horizon, rows
            width *= 4
            continue
        rows = 0
        for part in parts:
            if rows + part.rows > most:
                break
            rows += part.rows
        if rows:
            return part.first, rows
        if part.until - part.first == 1:
            return part.until, part.rows
        # Too many in the first part that has any: look closer.
        begin, width = part.first, part.until - part.first


def reads(first: int, until: int, parts: Sequence[Part], most: Size = READ) -> Reads:
    """Cut a window that was counted into reads of about that size."""
    cuts = [first, *_cuts(parts, most), until]
    conditions = tuple(f"xid >= {begin} and xid < {end}" for begin, end in pairwise(cuts))
    # A row is wider than its body: keys, times and names.
    widest = max((part.biggest for part in parts), default=0) + 512
    fetch = max(1, min(FETCH_ROWS, FETCH_BYTES // widest))
    return Reads(conditions, fetch, len(_cuts(parts, CHUNK)) + 1)


def reads_within(connection: Connection, predicates: Sequence[str]) -> Reads:
    """Cut what is within predicates into short reads, what comes to be within them later too."""
    conditions: list[str] = []
    fetch, tasks = FETCH_ROWS, 0
    for predicate in predicates:
        found = reads(0, _NEVER, _parts_within(connection, predicate))
        conditions += [f"({predicate}) and {condition}" for condition in found.conditions]
        fetch, tasks = min(fetch, found.fetch), tasks + found.tasks
    return Reads(tuple(conditions), fetch, tasks)


def _parts_within(connection: Connection, predicate: str) -> list[Part]:
    row = connection.execute(_EXTENT + predicate).fetchone()
    assert row is not None
    rows, first, last, size, biggest = row
    if not rows:
        return []
    whole = Part(first, last + 1, rows, 0, int(size), biggest)
    return divide(connection, first, last + 1) if _is_much(whole, READ) else [whole]


def _is_much(part: Part, most: Size) -> bool:
    return part.rows > 2 * most.rows or part.bytes > 2 * most.bytes


def _cuts(parts: Sequence[Part], most: Size) -> list[int]:
    """Return the transactions before which one read ends and another begins."""
    cuts: list[int] = []
    rows = size = 0
    for part in parts:
        if rows and (rows + part.rows > most.rows or size + part.bytes > most.bytes):
            cuts.append(part.first)
            rows = size = 0
        rows += part.rows
        size += part.bytes
    return cuts
