from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from support.http import eventually
from support.postgres import Connection
from support.sql import number

END = (
    "select skipmq.end_backend(s.pid, s.began + %s::interval, %s::boolean)"
    " from skipmq.database_sessions() s where s.pid = %s"
)
STATE = "select max(s.state) from skipmq.database_sessions() s where s.pid = %s"
CANCEL, TERMINATE = "false", "true"


@pytest.fixture
def other(database: str) -> Iterator[Connection]:
    with closing(psycopg.connect(database, application_name="psql")) as connection:
        yield connection


def test_statement_is_cancelled_and_session_terminated(node: Connection, other: Connection) -> None:
    pid = other.info.backend_pid
    other.pgconn.send_query(b"select pg_sleep(600)")
    eventually(lambda: number(node, STATE, pid) == "active", 30)

    assert number(node, END, "0", CANCEL, pid) == "done"

    result = other.pgconn.get_result()
    assert result is not None
    assert b"canceling statement" in result.error_message
    assert number(node, END, "1 second", TERMINATE, pid) == "missing"
    assert number(node, END, "0", TERMINATE, pid) == "done"
    eventually(lambda: number(node, STATE, pid) is None, 30)
    assert number(node, "select skipmq.end_backend(%s, null, true)", pid) == "missing"


def test_own_session_is_refused(node: Connection) -> None:
    assert number(node, END, "0", TERMINATE, node.info.backend_pid) == "refused"


def test_session_whose_start_is_hidden_is_refused(owner: Connection, node: Connection) -> None:
    pid = node.info.backend_pid
    with owner.transaction(force_rollback=True):
        for statement in (
            "create role plain_owner",
            "grant pg_signal_backend to plain_owner",
            "grant usage, create on schema skipmq to plain_owner",
            "alter function skipmq.database_sessions owner to plain_owner",
            "alter function skipmq.end_backend owner to plain_owner",
        ):
            owner.execute(statement)
        asked = "select skipmq.end_backend(%s, now() - interval '1 day', true)"
        assert owner.execute(asked, (pid,)).fetchone() == ("refused",)
    node.execute("select 1")
