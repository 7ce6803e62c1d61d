import psycopg

from support.damage import damaged_copy, pages_of
from support.postgres import Databases
from support.sql import Queue, number

TRY = "select skipmq.try_oldest_message(%s, false)"


def test_oldest_message_has_an_age_unless_its_page_is_damaged(
    databases: Databases, new_database: str
) -> None:
    with psycopg.connect(new_database, autocommit=True) as owner:
        orders = Queue(owner)
        orders.send("a")
        (page,) = pages_of(owner, "true")
        assert number(owner, TRY, orders.id) > 0
    url = damaged_copy(databases, new_database, "skipmq.message", page)
    with psycopg.connect(url, autocommit=True) as owner:
        found = number(owner, TRY, orders.id)
    databases.drop(url)

    assert found is None
