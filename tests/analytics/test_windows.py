"""Cutting the history into windows, without Spark."""

from itertools import pairwise
from typing import Any

from skipmq.analytics import jdbc
from skipmq.analytics.jdbc import Source
from skipmq.analytics.lake import windows
from skipmq.analytics.lake.windows import QueryPlan, Size, count, divide, reach
from skipmq.analytics.postgres import history
from skipmq.analytics.postgres.history import Server
from support.analytics import age, settle, settle_copies
from support.http import eventually
from support.postgres import Connection
from support.sql import Queue, number


def counted(owner: Connection, plan: QueryPlan) -> list[int]:
    """Return how many rows each query has."""
    return [
        number(owner, f"select count(*) from skipmq.history where {condition}")
        for condition in plan.conditions
    ]


def settle_many(owner: Connection) -> None:
    """Settle 160,000 messages in eight transactions."""
    for first in range(1_000, 161_000, 20_000):
        settle_copies(owner, first, 20_000)


def server(owner: Connection) -> Server:
    """Return the server's state, once no transaction, as of autovacuum, keeps the history back."""
    last = number(owner, "select max(xid) from skipmq.history")
    eventually(lambda: history.server(owner).horizon > last, why="all is final")
    return history.server(owner)


def settle_at_once(queue: Queue, count: int) -> None:
    """Settle so many messages in one transaction."""
    queue.send(*["x"] * count)
    received: list[dict[str, Any]] = []
    while len(received) < count:
        received += queue.receive()
    queue.delete(*received)


def test_reach_ends_before_the_transaction_that_would_be_too_much(owner: Connection) -> None:
    settle(owner, 40)
    horizon = server(owner).horizon
    found, position = [], 0

    while position < horizon:
        position, rows = reach(owner, position, horizon, 25)
        found.append(rows)
        before = number(owner, "select count(*) from skipmq.history where xid < %s", position)
        assert before == sum(found)

    # Transactions that are counted together may be fewer than would fit.
    assert sum(found) == 40
    assert all(rows in {10, 20} for rows in found)
    assert reach(owner, 0, horizon, 40) == (horizon, 40)
    assert reach(owner, horizon, horizon, 40) == (horizon, 0)


def test_reach_passes_a_transaction_that_is_too_big_alone(owner: Connection) -> None:
    settle(owner, 10)
    orders = Queue(owner)
    settle_at_once(orders, 50)
    settle_at_once(orders, 5)
    horizon = server(owner).horizon
    found, position = [], 0

    while position < horizon:
        position, rows = reach(owner, position, horizon, 20)
        found.append(rows)

    assert found == [10, 50, 5]


def test_parts_are_disjoint_and_add_up(owner: Connection) -> None:
    settle(owner, 100)
    horizon = server(owner).horizon
    near = number(owner, "select min(xid) from skipmq.history")

    parts = count(owner, near, horizon)

    assert sum(part.rows for part in parts) == 100
    assert all(a.until <= b.first for a, b in pairwise(parts))


def test_conditions_of_a_window_cover_it_in_short_queries(owner: Connection) -> None:
    settle(owner, 100)
    now = server(owner)

    ((window, plan),) = windows.windows(owner, 0, now, near=windows.first_position(owner, []))
    counts = counted(owner, plan)

    assert (sum(counts), window.rows) == (100, 100)
    assert plan.conditions[0].startswith("xid >= 0 and")
    assert plan.conditions[-1].endswith(f"xid < {now.horizon}")


def test_queries_stay_short_where_few_transactions_settled_nearly_all(owner: Connection) -> None:
    settle(owner, 10)
    owner.execute(
        "do $$ begin for n in 1..2000 loop commit and chain; perform pg_current_xact_id();"
        " end loop; end $$"
    )
    settle_many(owner)
    settle(owner, 10)
    owner.execute("vacuum analyze skipmq.history")

    ((window, plan),) = windows.windows(owner, 0, server(owner))
    counts = counted(owner, plan)

    assert sum(counts) == window.rows == 160_020
    assert max(counts) <= 2 * windows.QUERY.rows


def test_history_is_cut_into_short_queries_that_have_later_rows_too(
    owner: Connection, source: Source
) -> None:
    settle(owner, 10)
    settle_many(owner)
    age(owner, 1)
    owner.execute("update skipmq.history set settled_at = '2000-01-01' where id % 2 = 0")
    settle(owner, 10)
    days = jdbc.days(source)
    plan = windows.plan_within(owner, jdbc.by_day(days))
    found = counted(owner, plan)

    assert sum(found) == 160_020
    assert max(found) <= 2 * windows.QUERY.rows
    assert 1 < plan.tasks < len(plan.conditions)
    settle(owner, 10)
    owner.execute("update skipmq.history set xid = xid + 1000000000 where id < 20000")
    assert sum(counted(owner, plan)) == 160_030
    assert len(windows.plan_within(owner, ["id < 10"]).conditions) == 1


def test_transactions_that_are_big_are_parts_of_their_own(owner: Connection) -> None:
    settle(owner, 20)
    orders = Queue(owner)
    for size in (9, 2):
        settle_at_once(orders, size)

    parts = divide(owner, 0, server(owner).horizon, Size(rows=1, bytes=1000))

    assert [part.rows for part in parts] == [10, 10, 9, 2]
    assert all(part.until - part.first == 1 for part in parts[:3])


def test_fetch_of_big_messages_is_small(owner: Connection) -> None:
    settle(owner, 10)
    Queue(owner, "big").send("x" * 1_000_000)
    big = Queue(owner, "big")
    big.delete(*big.receive())

    ((_, plan),) = windows.windows(owner, 0, server(owner))

    assert 1 < plan.fetch < 64


def test_horizon_stays_below_an_open_transaction_and_outlives_a_crash(owner: Connection) -> None:
    before = number(owner, "select pg_current_wal_insert_lsn()")

    server = history.server(owner)

    xid = number(owner, "select pg_snapshot_xmin(pg_current_snapshot())::text::bigint")
    assert server.horizon <= xid
    assert number(owner, "select pg_current_wal_flush_lsn() >= %s::pg_lsn", before)
