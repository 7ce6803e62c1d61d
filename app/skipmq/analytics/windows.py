"""Cutting the history into windows of transactions that are over, small enough for short queries.

A window [first, until) with `until` at or below the oldest transaction that is still open is final:
nothing can be added to it, so that any number of queries, in whatever snapshots, see the same rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import pairwise
from typing import NamedTuple

from skipmq.analytics.period import day_bounds
from skipmq.analytics.postgres import history
from skipmq.analytics.postgres.history import Part, Server
from skipmq.database.session import Session


class Size(NamedTuple):
    """How much to read at once."""

    rows: int
    bytes: int


# A query takes some seconds, as a standby that is to take over cancels longer ones.
QUERY = Size(25_000, 32 << 20)
# What a task reads one after the other.
CHUNK = Size(250_000, 256 << 20)
# Rows of a window, which is a commit of the lake.
WINDOW_ROWS = 2_000_000
# Bytes that a cursor may bring at once, and rows.
FETCH_BYTES, FETCH_ROWS = 32 << 20, 10_000
# Transactions that a window has at first, and parts in which it is counted.
_WIDTH, _PARTS = 1 << 16, 64
# A transaction that there will not be.
_NEVER = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Window:
    """Transactions from `first` to before `until`, and what the database counted in them then."""

    first: int
    until: int
    rows: int
    ids: int
    at: datetime
    timeline: int


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """The conditions of disjoint queries, and how many rows to fetch at once.

    `tasks` are enough for all: so many files there are then, and not one for each query.
    """

    conditions: tuple[str, ...]
    fetch: int
    tasks: int


def beginning(session: Session, days: Sequence[date]) -> int:
    """Return a transaction near the oldest of the history, to begin counting at."""
    for day in days:
        if first := history.first_transaction(session, *day_bounds(day)):
            return first
    return 0


def windows(
    session: Session, position: int, server: Server, near: int = 0
) -> Iterator[tuple[Window, QueryPlan]]:
    """Give the windows from a position up to the server's horizon that have rows, in order.

    The first may begin before its rows do; `near` is where those are. Each is counted in a short
    statement of its own; a transaction is never cut.
    """
    while position < server.horizon:
        until, rows = reach(session, position, server.horizon, WINDOW_ROWS, near)
        if not rows:
            return
        parts = divide(session, position, until)
        rows, ids = sum(part.rows for part in parts), sum(part.ids for part in parts)
        window = Window(position, until, rows, ids, server.now, server.timeline)
        yield window, plan(position, until, parts)
        position = until


def count(session: Session, first: int, until: int) -> list[Part]:
    """Count the history in a window, in parts of equal numbers of transactions."""
    return history.count(session, first, until, width=max(1, -(-(until - first) // _PARTS)))


def divide(session: Session, first: int, until: int, most: Size = QUERY) -> list[Part]:
    """Count the history in a window, in parts of at most twice that size.

    Others than queues count transactions too, so that in few of them may be all that was settled. A
    transaction that has more by itself is a part.
    """
    found: list[Part] = []
    for part in count(session, first, until):
        if _is_much(part, most) and part.until - part.first > 1:
            found += divide(session, part.first, part.until, most)
        else:
            found.append(part)
    return found


def reach(session: Session, first: int, horizon: int, most: int, near: int = 0) -> tuple[int, int]:
    """Return how far from `first` there are `most` rows and no more, and how many there are.

    A transaction is whole; one that has more by itself is passed all the same. `near` is where rows
    are to be found first.
    """
    begin, width = first, max(0, near - first) + _WIDTH
    while True:
        until = min(begin + width, horizon)
        parts = count(session, begin, until)
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
        # Too many in the first part that has any: count again in smaller parts.
        begin, width = part.first, part.until - part.first


def plan(first: int, until: int, parts: Sequence[Part], most: Size = QUERY) -> QueryPlan:
    """Cut a window that was counted into queries of about that size."""
    cuts = [first, *_cuts(parts, most), until]
    conditions = tuple(f"xid >= {begin} and xid < {end}" for begin, end in pairwise(cuts))
    # A row is wider than its body: keys, times and names.
    widest = max((part.biggest for part in parts), default=0) + 512
    fetch = max(1, min(FETCH_ROWS, FETCH_BYTES // widest))
    return QueryPlan(conditions, fetch, len(_cuts(parts, CHUNK)) + 1)


def plan_within(session: Session, predicates: Sequence[str]) -> QueryPlan:
    """Cut what fulfils predicates into short queries, which find later rows too."""
    conditions: list[str] = []
    fetch, tasks = FETCH_ROWS, 0
    for predicate in predicates:
        found = plan(0, _NEVER, _parts_within(session, predicate))
        conditions += [f"({predicate}) and {condition}" for condition in found.conditions]
        fetch, tasks = min(fetch, found.fetch), tasks + found.tasks
    return QueryPlan(tuple(conditions), fetch, tasks)


def _parts_within(session: Session, predicate: str) -> list[Part]:
    whole = history.extent(session, predicate)
    if whole is None:
        return []
    return divide(session, whole.first, whole.until) if _is_much(whole, QUERY) else [whole]


def _is_much(part: Part, most: Size) -> bool:
    return part.rows > 2 * most.rows or part.bytes > 2 * most.bytes


def _cuts(parts: Sequence[Part], most: Size) -> list[int]:
    """Return the transactions before which one query ends and another begins."""
    cuts: list[int] = []
    rows = size = 0
    for part in parts:
        if rows and (rows + part.rows > most.rows or size + part.bytes > most.bytes):
            cuts.append(part.first)
            rows = size = 0
        rows += part.rows
        size += part.bytes
    return cuts
