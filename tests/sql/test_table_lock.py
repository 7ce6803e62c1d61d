from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from support.postgres import Connection
from support.sql import SENDS, Queue, number, until_blocked

LOCK = "select session from skipmq.table_lock()"


def lock(mode: str) -> str:
    return f"lock table skipmq.message in {mode} mode"


@pytest.mark.parametrize(
    ("mode", "shown"),
    [
        ("share", "ShareLock"),
        ("share row exclusive", "ShareRowExclusiveLock"),
        ("exclusive", "ExclusiveLock"),
        ("access exclusive", "AccessExclusiveLock"),
    ],
)
def test_transaction_that_locks_a_table_against_writes_is_named(
    database: str, node: Connection, mode: str, shown: str
) -> None:
    with psycopg.connect(database, application_name="their migration") as holder:
        holder.execute(lock(mode))
        pid = holder.info.backend_pid

        named = number(node, LOCK)
        began = number(node, "select began <= clock_timestamp() from skipmq.table_lock()")

    assert named == (
        f"their migration, process {pid}, user postgres holds {shown} on skipmq.message"
    )
    assert began
    assert number(node, LOCK) is None


def test_lock_that_is_waited_for_holds_up_others_and_is_named(
    database: str, node: Connection, owner: Connection
) -> None:
    with (
        ThreadPoolExecutor() as pool,
        psycopg.connect(database) as waiting,
        psycopg.connect(database) as reader,
    ):
        reader.execute("select from skipmq.message limit 1")
        locked = pool.submit(waiting.execute, lock("access exclusive"))
        until_blocked(owner)

        named = number(node, LOCK)
        reader.rollback()
        locked.result()

    assert "waits for AccessExclusiveLock on skipmq.message" in named


def test_locks_of_those_who_write_and_vacuum_are_none(
    database: str, node: Connection, owner: Connection
) -> None:
    Queue(owner)
    with psycopg.connect(database) as sender:
        sender.execute(SENDS["orders"])
        sender.execute(lock("share update exclusive"))

        assert number(node, LOCK) is None
