import psycopg

from support.damage import damaged_copy, pages_of
from support.postgres import Databases
from support.sql import Queue, number

FROM = "select skipmq.readable_from(%s, 0::smallint, %s, clock_timestamp())"


def test_intact_queue_can_be_read_from_its_head(orders: Queue) -> None:
    orders.send("a")

    assert number(orders.connection, FROM, orders.id, "2020-01-01+0") == number(
        orders.connection, "select timestamptz '2020-01-01+0'"
    )


def test_entry_after_the_damage_is_found_to_the_microsecond(
    databases: Databases, new_database: str
) -> None:
    with psycopg.connect(new_database, autocommit=True) as owner:
        orders = Queue(owner)
        for n in range(100):
            orders.send(f"{n} {'x' * 200}")
        pages = pages_of(owner, "true")
        times = [
            number(
                owner,
                "select max(visible_at) from skipmq.message"
                " where queue_id > 0 and (ctid::text::point)[0] = %s",
                page,
            )
            for page in pages
        ]
    url = damaged_copy(databases, new_database, "skipmq.message", pages[1])
    with psycopg.connect(url, autocommit=True) as owner:
        after = "select %s::timestamptz + interval '1 microsecond'"
        found = number(owner, FROM, orders.id, number(owner, after, times[0]))
        expected = number(owner, after, times[1])
        beyond = number(owner, FROM, orders.id, found)
    databases.drop(url)

    assert (found, beyond) == (expected, expected)


def test_end_is_just_after_now_where_nothing_can_be_read(
    databases: Databases, new_database: str
) -> None:
    with psycopg.connect(new_database, autocommit=True) as owner:
        orders = Queue(owner)
        orders.send("a")
        (page,) = pages_of(owner, "true")
        sent = number(owner, "select visible_at from skipmq.message where queue_id > 0")
    url = damaged_copy(databases, new_database, "skipmq.message", page)
    with psycopg.connect(url, autocommit=True) as owner:
        found = number(owner, FROM, orders.id, "2020-01-01+0")
        row = owner.execute("select %s::timestamptz + interval '1 microsecond'", (sent,)).fetchone()
    databases.drop(url)

    # Behind the only message there is nothing, which can be read.
    assert (found,) == row
