import time
from collections.abc import Iterator
from contextlib import ExitStack, closing

import psycopg
import pytest

from support.postgres import Connection, Databases, as_reader
from support.sql import number

END = "select pid, role, application_name, held > interval '0' from skipmq.end_long_snapshots(%s)"
MADE = "stranger", "grafana", "person"


@pytest.fixture
def reader(database: str) -> Iterator[Connection]:
    with psycopg.connect(as_reader(database), application_name="notebook") as connection:
        yield connection


@pytest.fixture
def roles(owner: Connection) -> Iterator[Connection]:
    """Give a connection that may make the roles of MADE, which go at the end with what they own."""
    yield owner
    for role in reversed(MADE):
        if number(owner, "select to_regrole(%s) is not null", role):
            owner.execute(f"reassign owned by {role} to current_user")
            owner.execute(f"drop role {role}")


def hold(stack: ExitStack, database: str, role: str) -> Connection:
    """Open a session of a role that holds a snapshot until the end of the stack."""
    url = database.replace("postgresql://postgres@", f"postgresql://{role}@")
    connection = stack.enter_context(closing(psycopg.connect(url, application_name="notebook")))
    connection.execute("set transaction isolation level repeatable read")
    connection.execute("select count(*) from pg_database")
    return connection


def is_there(owner: Connection, pid: int) -> bool:
    return bool(number(owner, "select count(*) from pg_stat_activity where pid = %s", pid))


def until_gone(owner: Connection, pid: int) -> None:
    deadline = time.monotonic() + 30
    while is_there(owner, pid):
        assert time.monotonic() < deadline


def test_reader_that_holds_a_snapshot_for_too_long_is_ended(
    owner: Connection, reader: Connection
) -> None:
    reader.execute("set transaction isolation level repeatable read")
    reader.execute("select count(*) from skipmq_views.queue")
    pid = reader.info.backend_pid

    assert owner.execute(END, ("1 hour",)).fetchall() == []
    assert owner.execute(END, ("0",)).fetchall() == [(pid, "skipmq_reader", "notebook", True)]
    until_gone(owner, pid)
    with pytest.raises(psycopg.OperationalError):
        reader.execute("select 1")


def test_reader_that_lifted_its_timeouts_is_ended(owner: Connection, reader: Connection) -> None:
    """A role can always set what its own sessions have."""
    for name in ("statement_timeout", "idle_in_transaction_session_timeout"):
        reader.execute(f"set {name} = 0")
    reader.commit()
    reader.execute("declare c cursor for select * from generate_series(1, 10000000)")
    reader.execute("fetch 1 from c")

    assert [row[0] for row in owner.execute(END, ("0",))] == [reader.info.backend_pid]
    until_gone(owner, reader.info.backend_pid)
    with pytest.raises(psycopg.OperationalError):
        reader.execute("fetch 1 from c")


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


def test_reader_of_another_database_which_holds_up_nothing_here_is_left_alone(
    databases: Databases, owner: Connection
) -> None:
    with ExitStack() as stack:
        elsewhere = hold(stack, databases.url("postgres"), "skipmq_reader")

        assert owner.execute(END, ("0",)).fetchall() == []
        assert number(elsewhere, "select 1") == 1


def test_members_of_the_readers_role_are_ended_however_far_removed(
    database: str, roles: Connection
) -> None:
    roles.execute("create role grafana login in role skipmq_reader")
    roles.execute("create role person login noinherit in role grafana")
    with ExitStack() as stack:
        held = {name: hold(stack, database, name) for name in ("grafana", "person")}

        ended = roles.execute(END, ("0",)).fetchall()

        assert sorted(role for _, role, _, _ in ended) == ["grafana", "person"]
        for connection in held.values():
            until_gone(roles, connection.info.backend_pid)


def test_member_that_wrote_and_stays_idle_is_ended(database: str, roles: Connection) -> None:
    roles.execute("create role grafana login in role skipmq_reader")
    url = database.replace("postgresql://postgres@", "postgresql://grafana@")
    with psycopg.connect(url) as writer:
        writer.execute("select pg_current_xact_id()")
        pid = writer.info.backend_pid
        xmin = "select backend_xmin::text from pg_stat_activity where pid = %s"
        assert number(roles, xmin, pid) is None

        ended = roles.execute(END, ("0",)).fetchall()

        until_gone(roles, pid)
        with pytest.raises(psycopg.OperationalError):
            writer.execute("select 1")
    assert [row[:2] for row in ended] == [(pid, "grafana")]


@pytest.mark.parametrize(
    "rights", ["superuser in role skipmq_reader", "in role skipmq_reader, postgres"]
)
def test_member_that_is_superuser_or_may_act_as_the_owner_is_left_alone(
    database: str, roles: Connection, rights: str
) -> None:
    roles.execute(f"create role grafana login {rights}")
    with ExitStack() as stack:
        held = hold(stack, database, "grafana")

        assert roles.execute(END, ("0",)).fetchall() == []
        assert number(held, "select 1") == 1


def test_member_that_may_act_as_a_node_is_left_alone(database: str, roles: Connection) -> None:
    roles.execute("create role person login in role skipmq_node")
    roles.execute("create role grafana login in role skipmq_reader, person")
    with ExitStack() as stack:
        held = hold(stack, database, "grafana")

        assert roles.execute(END, ("0",)).fetchall() == []
        assert number(held, "select 1") == 1


def test_owner_without_the_right_is_told_what_to_grant(
    roles: Connection, reader: Connection
) -> None:
    roles.execute("create role stranger")
    roles.execute("alter function skipmq.end_long_snapshots(interval) owner to stranger")
    reader.execute("select 1")

    with pytest.raises(psycopg.errors.InsufficientPrivilege) as refused:
        roles.execute(END, ("0",))

    assert refused.value.diag.message_hint == "grant skipmq_reader to stranger"


def test_role_that_the_owner_may_not_end_keeps_it_from_ending_no_other(
    database: str, roles: Connection
) -> None:
    roles.execute("create role stranger in role skipmq_reader")
    roles.execute("create role grafana login in role skipmq_reader")
    roles.execute("create role person login in role skipmq_reader")
    roles.execute("alter function skipmq.end_long_snapshots(interval) owner to stranger")
    with ExitStack() as stack:
        for name in ("grafana", "person", "grafana"):
            hold(stack, database, name)
        pid = hold(stack, database, "skipmq_reader").info.backend_pid

        assert [row[0] for row in roles.execute(END, ("0",)).fetchall()] == [pid]
        until_gone(roles, pid)
        with pytest.raises(psycopg.errors.InsufficientPrivilege) as refused:
            roles.execute(END, ("0",))
        assert refused.value.diag.message_hint == "grant grafana, person to stranger"

        roles.execute("grant grafana, person to stranger")
        ended = roles.execute(END, ("0",)).fetchall()

    assert sorted(row[1] for row in ended) == ["grafana", "grafana", "person"]


def test_owner_that_may_see_and_end_everybody_needs_no_grant_of_a_role(
    database: str, roles: Connection
) -> None:
    roles.execute("create role stranger in role pg_signal_backend, pg_read_all_stats")
    roles.execute("create role grafana login in role skipmq_reader")
    roles.execute("alter function skipmq.end_long_snapshots(interval) owner to stranger")
    with ExitStack() as stack:
        pid = hold(stack, database, "grafana").info.backend_pid

        assert [row[:2] for row in roles.execute(END, ("0",)).fetchall()] == [(pid, "grafana")]
