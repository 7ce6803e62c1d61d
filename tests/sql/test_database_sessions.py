from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from support.http import eventually
from support.postgres import Connection


@pytest.fixture
def blocker(database: str) -> Iterator[Connection]:
    """Give a session that has locked a table."""
    with closing(psycopg.connect(database, application_name="psql")) as connection:
        connection.execute("lock table skipmq.message in share mode")
        yield connection


def sessions(node: Connection) -> dict[int, dict[str, Any]]:
    cursor = node.cursor(row_factory=psycopg.rows.dict_row)
    rows = cursor.execute("select * from skipmq.database_sessions()").fetchall()
    return {row["pid"]: row for row in rows}


def test_who_blocks_whom_comes_first(database: str, node: Connection, blocker: Connection) -> None:
    with closing(psycopg.connect(database, application_name="late")) as late:
        late.pgconn.send_query(b"begin; lock table skipmq.message in row exclusive mode")
        pids = blocker.info.backend_pid, late.info.backend_pid
        found = eventually(
            lambda: seen if (seen := sessions(node))[pids[1]]["waits_for"] else None, 30
        )

    assert [*found][:2] == [*pids]
    holder, waiter = (found[pid] for pid in pids)
    assert (holder["program"], holder["blocked_by"], holder["waits_for"]) == ("psql", [], None)
    assert waiter["blocked_by"] == [pids[0]]
    assert waiter["waits_for"] == "RowExclusiveLock skipmq.message"
    assert holder["transaction_seconds"] >= 0
    own = found[node.info.backend_pid]
    assert (own["role"], own["may_end"]) == ("skipmq_node", False)


def test_snapshot_has_its_holder(node: Connection, blocker: Connection) -> None:
    blocker.rollback()
    blocker.execute("set transaction isolation level repeatable read")
    blocker.execute("select count(*) from skipmq.queue")

    assert sessions(node)[blocker.info.backend_pid]["holds_snapshot"]
