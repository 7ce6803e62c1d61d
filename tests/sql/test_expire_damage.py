import psycopg

from support.damage import damaged_copy, pages_of
from support.postgres import Connection, Databases
from support.sql import Queue, number

EXPIRE = "select skipmq.expire_damage()"


def noted(owner: Connection, relation: str, page: int) -> None:
    file = number(owner, "select pg_relation_filepath(%s::regclass)", relation)
    error = f'invalid page in block {page} of relation "{file}"'
    owner.execute("select skipmq.note_damage(%s)", (error,))


def test_page_of_a_table_is_forgotten_once_it_can_be_read(
    databases: Databases, new_database: str
) -> None:
    with psycopg.connect(new_database, autocommit=True) as owner:
        Queue(owner).send("a")
        (page,) = pages_of(owner, "true")
    url = damaged_copy(databases, new_database, "skipmq.message", page)
    with psycopg.connect(url, autocommit=True) as owner:
        noted(owner, "skipmq.message", page)
        assert number(owner, EXPIRE) == 0

        # The remedy that damaged_pages names, which gives the rows of the page up.
        owner.execute("set zero_damaged_pages = on")
        owner.execute("vacuum full skipmq.message")

        assert number(owner, EXPIRE) == 1
        assert number(owner, "select count(*) from skipmq.message where queue_id > 0") == 0
        noted(owner, "skipmq.message", page - 1)
        assert number(owner, EXPIRE) == 1
    databases.drop(url)


def test_index_is_forgotten_once_it_is_rebuilt(owner: Connection) -> None:
    noted(owner, "skipmq.message_visible", 3)
    assert number(owner, EXPIRE) == 0

    owner.execute("reindex index concurrently skipmq.message_visible")

    assert number(owner, EXPIRE) == 1
    assert number(owner, "select skipmq.database_state()") == "writable"


def test_damage_of_an_unknown_relation_is_forgotten_after_an_hour(owner: Connection) -> None:
    owner.execute("select skipmq.note_damage('something unheard of')")
    assert number(owner, EXPIRE) == 0

    owner.execute("update skipmq.damage set last_at = last_at - interval '2 hours'")

    assert number(owner, EXPIRE) == 1
