import psycopg
import pytest

from support.postgres import Connection
from support.sql import advance, number

KEYS = "select array_agg(key) from skipmq.receipt_keys()"
ROTATE = "select skipmq.rotate_receipt_key()"


def test_each_rotation_makes_another_key_and_keeps_those_before(owner: Connection) -> None:
    for _ in range(3):
        owner.execute(ROTATE)

    assert len(set(number(owner, KEYS))) == 4


def test_key_of_long_ago_is_deleted_by_the_next_rotation(owner: Connection) -> None:
    (first,) = number(owner, KEYS)
    owner.execute(ROTATE)
    advance(owner, "13 hours")
    assert number(owner, "select count(*) from skipmq.receipt_key") == 2

    owner.execute(ROTATE)

    rows = owner.execute("select key from skipmq.receipt_key").fetchall()
    assert len(rows) == 2
    assert (first,) not in rows


def test_new_key_is_the_newest_where_the_clock_was_set_back(owner: Connection) -> None:
    (first,) = number(owner, KEYS)
    advance(owner, "-1 hour")

    owner.execute(ROTATE)

    newest, other = number(owner, KEYS)
    assert (newest != first, other) == (True, first)


def test_rotation_is_notified(owner: Connection) -> None:
    owner.execute("listen skipmq")

    owner.execute(ROTATE)

    assert next(owner.notifies(timeout=30, stop_after=1)).payload == "sql keys all"


def test_node_may_not_replace_the_key(node: Connection) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        node.execute(ROTATE)
