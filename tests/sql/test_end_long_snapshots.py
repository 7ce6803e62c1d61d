import time
from collections.abc import Iterator

import psycopg
import pytest

from support.postgres import Connection, as_reader
from support.sql import number

END = "select pid, application_name, held > interval '0' from skipmq.end_long_snapshots(%s)"


@pytest.fixture
def reader(database: str) -> Iterator[Connection]:
    with psycopg.connect(as_reader(database), application_name="notebook") as connection:
        yield connection


def is_there(owner: Connection, pid: int) -> bool:
    return bool(number(owner, "select count(*) from pg_stat_activity where pid = %s", pid))


def test_reader_that_holds_a_snapshot_for_too_long_is_ended(
    owner: Connection, reader: Connection
) -> None:
    reader.execute("set transaction isolation level repeatable read")
    reader.execute("select count(*) from skipmq_views.queue")
    pid = reader.info.backend_pid

    assert owner.execute(END, ("1 hour",)).fetchall() == []
    assert owner.execute(END, ("0",)).fetchall() == [(pid, "notebook", True)]
    deadline = time.monotonic() + 30
    while is_there(owner, pid):
        assert time.monotonic() < deadline
    with pytest.raises(psycopg.OperationalError):
        reader.execute("select 1")


def test_reader_without_a_snapshot_and_other_roles_are_left_alone(
    database: str, owner: Connection, reader: Connection
) -> None:
    reader.execute("select 1")  # Open, idle, and holding nothing.
    with psycopg.connect(database) as other:
        other.execute("set transaction isolation level repeatable read")
        other.execute("select 1 from skipmq.queue")

        assert owner.execute(END, ("0",)).fetchall() == []
        assert number(other, "select 1") == 1
    assert number(reader, "select 1") == 1


def test_owner_without_the_right_is_told_what_to_grant(
    owner: Connection, reader: Connection
) -> None:
    owner.execute("create role stranger")
    owner.execute("alter function skipmq.end_long_snapshots(interval) owner to stranger")
    reader.execute("select 1")

    with pytest.raises(psycopg.errors.InsufficientPrivilege) as refused:
        owner.execute(END, ("0",))

    owner.execute("reassign owned by stranger to current_user")
    owner.execute("drop role stranger")
    assert refused.value.diag.message_hint == "grant skipmq_reader to stranger"
