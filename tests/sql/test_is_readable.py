import psycopg

from support.damage import damaged_copy, pages_of
from support.postgres import Databases
from support.sql import Queue, number

READABLE = "select skipmq.is_readable(%s, 0::smallint, '2020-01-01', %s)"


def test_times_before_a_damaged_entry_can_be_read(databases: Databases, new_database: str) -> None:
    with psycopg.connect(new_database, autocommit=True) as owner:
        orders = Queue(owner)
        orders.send("a")
        (page,) = pages_of(owner, "true")
        assert number(owner, READABLE, orders.id, "infinity") is True
    url = damaged_copy(databases, new_database, "skipmq.message", page)
    with psycopg.connect(url, autocommit=True) as owner:
        found = [number(owner, READABLE, orders.id, to) for to in ("2020-01-02", "infinity")]
    databases.drop(url)

    assert found == [True, False]
