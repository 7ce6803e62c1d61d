import psycopg
import pytest

from support.postgres import Connection
from support.sql import advance, number


def test_clock_with_nothing_set_is_the_databases(owner: Connection) -> None:
    assert number(owner, "select abs(extract(epoch from skipmq.clock() - clock_timestamp())) < 1")


def test_clock_moved_by_owner_is_ahead(owner: Connection) -> None:
    advance(owner, "3 hours")

    ahead = number(owner, "select extract(epoch from skipmq.clock() - clock_timestamp())")

    assert 10_799 < ahead <= 10_800


def test_clock_moved_by_node_is_refused(node: Connection) -> None:
    advance(node, "3 hours")

    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        node.execute("select skipmq.clock()")
