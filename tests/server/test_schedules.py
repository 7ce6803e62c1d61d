"""Each tick sends one message, on several nodes that are killed in the middle of one."""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack

import psycopg
import pytest

from skipmq.broker.schedules import run_due
from skipmq.database.pool import Pool
from support.http import NodeProcess, eventually
from support.postgres import Connection, as_node
from support.schedules import create
from support.sql import Queue, number

TICKS = "select count(*) from skipmq.schedule_tick where message_id is not null"
MESSAGES = "select count(*) from skipmq.message where queue_id = %s"
GAPS = """
select count(*) from (
  select due_at - lag(due_at) over (order by due_at) as step from skipmq.schedule_tick) s
where step <> interval '1 second'
"""


@pytest.fixture
def owner(database: str) -> Iterator[Connection]:
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


def test_no_tick_is_lost_or_sent_twice_when_nodes_are_killed(
    database: str, owner: Connection
) -> None:
    queue = Queue(owner)
    with ExitStack() as stack:
        nodes = [
            stack.enter_context(NodeProcess(database_url=as_node(database))).ready()
            for _ in range(2)
        ]
        create(owner, expression="every second", catch_up="all")
        eventually(lambda: number(owner, TICKS) > 0, why="the first tick")
        # The row is locked: a node that waits in the middle of its tick is killed there.
        with owner.transaction():
            owner.execute("lock table skipmq.schedule_tick in exclusive mode")
            eventually(lambda: _waits(database), why="a node is in the middle of a tick")
            os.killpg(nodes[0].process.pid, signal.SIGKILL)
            os.killpg(nodes[1].process.pid, signal.SIGKILL)
        before = number(owner, TICKS)
        stack.enter_context(NodeProcess(database_url=as_node(database))).ready()
        eventually(lambda: number(owner, TICKS) > before + 3, why="ticks after the kill")
        number(owner, "select skipmq.change_schedule('tick', 'pause')")

        assert number(owner, GAPS) == 0
        assert number(owner, MESSAGES, queue.id) == number(owner, TICKS)


@pytest.mark.parametrize(
    ("catch_up", "sent"), [("latest", [2, 3]), ("all", [61, 161])], ids=["latest", "all"]
)
def test_what_was_missed_while_no_node_ran_is_made_up_for_once(
    database: str, owner: Connection, catch_up: str, sent: list[int]
) -> None:
    queue = Queue(owner)
    create(owner, expression="every hour", catch_up=catch_up)
    # One tick was due before a node has read the schedule.
    run(database, half_past(owner, 0))

    found = []
    for hours in (60, 300):
        # One janitor, and another one: nothing is left.
        assert run(database, half_past(owner, hours)) > 0
        assert run(database, half_past(owner, hours)) == 0
        found.append(number(owner, MESSAGES, queue.id))

    assert found == sent
    assert number(owner, TICKS) == min(found[-1], 100)


def test_clock_that_is_set_back_stops_no_schedule(database: str, owner: Connection) -> None:
    queue = Queue(owner)
    create(owner, expression="every hour")
    assert run(database, half_past(owner, 3000)) == 2

    # The next tick follows the clock, and is sent.
    assert [run(database, half_past(owner, hours)) for hours in (1, 2, 2)] == [1, 1, 0]

    assert number(owner, MESSAGES, queue.id) == 2


def test_no_tick_after_the_end_is_made_up_for(database: str, owner: Connection) -> None:
    queue = Queue(owner)
    create(owner, expression="every hour", ends_at=number(owner, "select now() + interval '2h'"))

    run(database, half_past(owner, 5))

    assert number(owner, MESSAGES, queue.id) == 1
    last = "select max(due_at) <= now() + interval '2h' from skipmq.schedule_tick"
    assert number(owner, last) is True


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"zone": "Mars/Olympus"}, "There is no time zone 'Mars/Olympus'"),
        ({"expression": "0 0 30 2 *"}, "never fires: its day-of-month is impossible"),
    ],
    ids=["zone", "cron"],
)
def test_schedule_that_cannot_be_ends_with_the_reason(
    database: str, owner: Connection, given: dict[str, str], reason: str
) -> None:
    Queue(owner)
    create(owner, **given)

    run(database, "0s")

    row = owner.execute("select next_at, failure from skipmq.schedule").fetchone()
    assert row is not None
    assert row[0] is None
    assert reason in row[1]


def half_past(owner: Connection, hours: int) -> str:
    """Return by what the clock is to be moved: to the middle of an hour, where no tick is due."""
    moved = "date_trunc('hour', clock_timestamp()) + make_interval(hours => %s, mins => 90)"
    return f"{number(owner, f'select extract(epoch from {moved} - clock_timestamp())', hours)}s"


def run(url: str, offset: str) -> int:
    """Have a janitor run what is due at a moved time; return how many ticks it advanced."""

    async def runs() -> int:
        moved = psycopg.conninfo.make_conninfo(url, options=f"-c skipmq.clock_offset={offset}")
        pool = Pool(moved, size=1)
        total = 0
        try:
            while (advanced := (await run_due(pool))[0]) > 0:
                total += advanced
        finally:
            pool.close()
        return total

    return asyncio.run(runs())


def _waits(database: str) -> bool:
    with psycopg.connect(database, autocommit=True) as connection:
        return bool(
            number(
                connection,
                "select count(*) from pg_stat_activity where datname = current_database()"
                " and wait_event_type = 'Lock' and query like '%%advance_schedule%%'",
            )
        )
