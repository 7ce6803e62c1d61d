from support.postgres import Connection
from support.sql import number

WATCH = "select skipmq.watch_disk()"
# 32 rows of 6,000 bytes, one to a page.
PAGES = "select pg_relation_size('skipmq.disk_probe') / current_setting('block_size')::integer"


def test_each_try_needs_new_room_and_leaves_no_row(owner: Connection, node: Connection) -> None:
    owner.execute("truncate skipmq.disk_probe")
    for tries in (1, 2):
        node.execute(WATCH)
        assert number(owner, PAGES) == 32 * tries
    assert number(owner, "select count(*) from skipmq.disk_probe") == 0


def test_vacuum_gives_the_room_back(owner: Connection, node: Connection) -> None:
    node.execute(WATCH)

    owner.execute("vacuum skipmq.disk_probe")

    assert number(owner, PAGES) == 0


def test_others_know_of_it_until_the_session_ends(owner: Connection, node: Connection) -> None:
    node.execute(WATCH)

    assert number(owner, "select skipmq.database_state()") == "disk_full"
