import psycopg
import pytest

from support.postgres import Connection, as_node, as_reader
from support.sql import Queue, number

HOLD = "select skipmq.hold_job(%s)"
JOBS = "select array(select name from skipmq.job order by name)"


def test_one_transaction_at_a_time_does_a_job(database: str, owner: Connection) -> None:
    with psycopg.connect(database) as first:
        assert number(first, HOLD, "fold_counts") is True
        assert number(owner, HOLD, "fold_counts") is False
        assert number(owner, HOLD, "mark_noisy") is True

    assert number(owner, HOLD, "fold_counts") is True


def test_every_job_that_a_function_holds_has_its_row(owner: Connection) -> None:
    held = number(
        owner,
        "select array(select distinct n[1] from pg_proc p,"
        " lateral regexp_matches(p.prosrc, $$skipmq.hold_job\\('(\\w+)'$$, 'g') n"
        " where p.pronamespace = 'skipmq'::regnamespace order by n[1])",
    )

    assert held == number(owner, JOBS)


def test_advisory_locks_of_a_login_stop_no_job(database: str, orders: Queue) -> None:
    orders.send("a", "b")
    with psycopg.connect(as_reader(database), autocommit=True) as login:
        jobs = number(orders.connection, JOBS)
        login.execute(
            "select pg_advisory_lock(hashtext('skipmq'), hashtext(n)) from unnest(%s::text[]) n",
            (jobs,),
        )

        assert number(orders.connection, "select skipmq.fold_counts(true)") > 0


def test_node_cannot_hold_a_job_by_itself(database: str) -> None:
    with (
        psycopg.connect(as_node(database)) as node,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        number(node, HOLD, "fold_counts")
