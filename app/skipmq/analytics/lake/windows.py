"""Windows of completed transactions, which divide the history into short queries.

A window [first, until) with `until` at or below the oldest open transaction is final: no rows can
be added to it, so all queries see the same rows whatever their snapshots.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from itertools import pairwise
from time import sleep
from typing import NamedTuple

from skipmq.analytics.columns import DIGEST_MODULUS, POSTGRESQL_DIGEST
from skipmq.analytics.postgres import history
from skipmq.analytics.postgres.history import Part, Server
from skipmq.analytics.reports.period import day_bounds
from skipmq.database.session import Session


class Size(NamedTuple):
    """A limit on the rows and bytes of a read."""

    rows: int
    bytes: int


# A query must take seconds only, because standbys cancel long ones.
QUERY = Size(25_000, 32 << 20)
# The queries of a task, which run one after the other.
CHUNK = Size(250_000, 256 << 20)
# A window is one commit of the lake.
WINDOW_ROWS = 2_000_000
# The same at a limited rate, in seconds: progress shows, and little is read again after a kill.
WINDOW_SECONDS = 60
# Limits of a fetch from a cursor.
FETCH_BYTES, FETCH_ROWS = 32 << 20, 10_000
# The initial width of a window in transactions, and the number of parts in which it is counted.
_WIDTH, _PARTS = 1 << 16, 64
# Above all transaction IDs.
MAXIMUM_XID = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Window:
    """Transactions from `first` to before `until`; number and digest of their rows at `at`.

    Each partition numbers its transactions by itself.
    """

    first: int
    until: int
    rows: int
    digest: int
    at: datetime
    timeline: int
    partition: int = 0


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """The conditions of disjoint queries, and their fetch size in rows.

    `tasks` is the number of tasks to run them in, and so of files to write.
    """

    conditions: tuple[str, ...]
    fetch: int
    tasks: int


def first_position(session: Session, days: Sequence[date]) -> int:
    """Return a transaction near the oldest one of the history, 0 if the history is empty."""
    for day in days:
        if first := history.first_transaction(session, *day_bounds(day)):
            return first
    return 0


def windows(  # noqa: PLR0913 - the last three have defaults.
    session: Session,
    position: int,
    server: Server,
    near: int = 0,
    partition: int = 0,
    *,
    rate: int | None = None,
) -> Iterator[tuple[Window, QueryPlan]]:
    """Yield a partition's windows with rows from a position up to its server's horizon, in order.

    `near` is a transaction near the first rows, if they are far beyond the position, `rate` the
    limit on the rows read in a second. Transactions are never divided.
    """
    limit = min(WINDOW_ROWS, rate * WINDOW_SECONDS) if rate else WINDOW_ROWS
    while position < server.horizon:
        until, rows = reach(session, position, server.horizon, limit, near)
        if not rows:
            return
        rows, total, queries = summed(session, position, until, rate)
        yield (
            Window(position, until, rows, total, server.now, server.timeline, partition),
            queries,
        )
        position = until


def summed(
    session: Session, first: int, until: int, rate: int | None = None
) -> tuple[int, int, QueryPlan]:
    """Return the number of rows of a window, their digest, and the queries that read them.

    With a `rate`, pauses after each query for as long as its rows take at that rate, and has the
    queries fetch fewer rows at once.
    """
    parts = divide(session, first, until)
    queries, rows = plan(first, until, parts), sum(part.rows for part in parts)
    pause = rows / len(queries.conditions) / rate if rate else 0

    def paced() -> Iterator[str]:
        for condition in queries.conditions:
            yield condition
            sleep(pause)

    total = history.digest(session, paced(), POSTGRESQL_DIGEST) % DIGEST_MODULUS
    if rate:
        queries = replace(queries, fetch=min(queries.fetch, rate // 10))
    return rows, total, queries


def count(session: Session, first: int, until: int) -> list[Part]:
    """Count the rows of a window, in parts of equally many transactions."""
    return history.count(session, first, until, width=max(1, -(-(until - first) // _PARTS)))


def divide(session: Session, first: int, until: int, limit: Size = QUERY) -> list[Part]:
    """Count the rows of a window, in parts of at most twice that size.

    A single transaction that is larger is a part. Parts are divided again where needed, because
    rows may be concentrated in few transactions.
    """
    parts: list[Part] = []
    for part in count(session, first, until):
        if _is_large(part, limit) and part.until - part.first > 1:
            parts += divide(session, part.first, part.until, limit)
        else:
            parts.append(part)
    return parts


def reach(session: Session, first: int, horizon: int, limit: int, near: int = 0) -> tuple[int, int]:
    """Return the end of a window from `first` with at most `limit` rows, and its row count.

    A single transaction with more rows is a window. `near` is a transaction near the first rows.
    """
    begin, width = first, max(0, near - first) + _WIDTH
    while True:
        until = min(begin + width, horizon)
        parts = count(session, begin, until)
        rows = sum(part.rows for part in parts)
        if rows <= limit:
            if until == horizon:
                return horizon, rows
            width *= 4
            continue
        rows = 0
        for part in parts:
            if rows + part.rows > limit:
                break
            rows += part.rows
        if rows:
            return part.first, rows
        if part.until - part.first == 1:
            return part.until, part.rows
        # The first part with rows has too many: count it in smaller parts.
        begin, width = part.first, part.until - part.first


def plan(first: int, until: int, parts: Sequence[Part], limit: Size = QUERY) -> QueryPlan:
    """Divide a counted window into queries of about that size."""
    cuts = [first, *_cuts(parts, limit), until]
    conditions = tuple(f"xid >= {begin} and xid < {end}" for begin, end in pairwise(cuts))
    # 512 bytes for the columns other than body and attributes.
    widest = max((part.biggest for part in parts), default=0) + 512
    fetch = max(1, min(FETCH_ROWS, FETCH_BYTES // widest))
    return QueryPlan(conditions, fetch, len(_cuts(parts, CHUNK)) + 1)


def plan_within(session: Session, predicates: Sequence[str]) -> QueryPlan:
    """Divide the rows that match predicates into short queries, which also match later rows."""
    conditions: list[str] = []
    fetch, tasks = FETCH_ROWS, 0
    for predicate in predicates:
        queries = plan(0, MAXIMUM_XID, _parts_within(session, predicate))
        conditions += [f"({predicate}) and {condition}" for condition in queries.conditions]
        fetch, tasks = min(fetch, queries.fetch), tasks + queries.tasks
    return QueryPlan(tuple(conditions), fetch, tasks)


def _parts_within(session: Session, predicate: str) -> list[Part]:
    whole = history.extent(session, predicate)
    if whole is None:
        return []
    return divide(session, whole.first, whole.until) if _is_large(whole, QUERY) else [whole]


def _is_large(part: Part, limit: Size) -> bool:
    return part.rows > 2 * limit.rows or part.bytes > 2 * limit.bytes


def _cuts(parts: Sequence[Part], limit: Size) -> list[int]:
    """Return the first transactions of all queries but the first one."""
    cuts: list[int] = []
    rows = size = 0
    for part in parts:
        if rows and (rows + part.rows > limit.rows or size + part.bytes > limit.bytes):
            cuts.append(part.first)
            rows = size = 0
        rows += part.rows
        size += part.bytes
    return cuts
