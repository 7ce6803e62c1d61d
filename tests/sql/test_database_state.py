import psycopg
import pytest

from support.http import eventually
from support.postgres import Connection, as_node, as_reader
from support.sql import number

STATE = "select skipmq.database_state()"
DISK_FULL = "select pg_advisory_lock_shared(hashtext('skipmq'), hashtext('disk_full'))"


def state(connection: Connection) -> str:
    return str(number(connection, STATE))


def test_database_that_takes_what_nodes_do_is_writable(owner: Connection, node: Connection) -> None:
    assert (state(owner), state(node)) == ("writable", "writable")


def test_session_that_may_not_write_is_read_only(node: Connection) -> None:
    node.execute("set default_transaction_read_only = on")

    assert state(node) == "read_only"


@pytest.mark.parametrize("function", ["send_messages", "claim_fifo_messages", "tag_queue"])
def test_role_that_lost_a_function_has_no_privilege(
    owner: Connection, node: Connection, function: str
) -> None:
    owner.execute(f"revoke execute on function skipmq.{function} from skipmq_node")
    try:
        assert (state(owner), state(node)) == ("writable", "no_privilege")
    finally:
        owner.execute(f"grant execute on function skipmq.{function} to skipmq_node")
    assert state(node) == "writable"


def test_every_session_sees_that_one_watches_a_full_disk(
    owner: Connection, node: Connection, database: str
) -> None:
    with psycopg.connect(as_node(database), autocommit=True) as watching:
        watching.execute(DISK_FULL)
        assert (state(owner), state(node)) == ("disk_full", "disk_full")

    eventually(lambda: state(node) == "writable")


def test_lock_of_a_login_that_may_not_watch_the_disk_says_nothing(
    owner: Connection, node: Connection, database: str
) -> None:
    with psycopg.connect(as_reader(database), autocommit=True) as login:
        login.execute(DISK_FULL)

        assert (state(owner), state(node)) == ("writable", "writable")


def test_functions_that_it_looks_for_exist(owner: Connection) -> None:
    """Find the names in its text, since one that is gone would never be missed."""
    missing = number(
        owner,
        "select count(*) from pg_get_functiondef('skipmq.database_state'::regproc) f,"
        " lateral regexp_matches(substring(f from 'array\\[([^]]*)\\]'), $$'([a-z_]+)'$$, 'g') n"
        " where not exists (select from pg_proc p"
        " where p.pronamespace = 'skipmq'::regnamespace and p.proname = n[1])",
    )
    assert missing == 0
