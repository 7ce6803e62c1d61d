"""Each tick sends one message, on several nodes that are killed in the middle of one."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack

import psycopg
import pytest

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


def _waits(database: str) -> bool:
    with psycopg.connect(database, autocommit=True) as connection:
        return bool(
            number(
                connection,
                "select count(*) from pg_stat_activity where datname = current_database()"
                " and wait_event_type = 'Lock' and query like '%%advance_schedule%%'",
            )
        )
