from support.postgres import Connection
from support.sql import number

PAGES = "select relation, kind, page, remedy, seconds >= 0 from skipmq.damaged_pages()"


def test_sound_database_has_none(node: Connection) -> None:
    assert node.execute(PAGES).fetchall() == []


def test_each_kind_has_its_remedy(owner: Connection, node: Connection) -> None:
    file = number(owner, "select pg_relation_filepath('skipmq.message')")
    for error in (
        f'invalid page in block 7 of relation "{file}"',
        'index "message_visible" contains corrupted page at block 5',
        "something unheard of",
    ):
        node.execute("select skipmq.note_damage(%s)", (error,))

    unknown, table, index = node.execute(PAGES).fetchall()

    assert (unknown[:3], unknown[4]) == (("", "unknown", -1), True)
    assert table[:3] == ("skipmq.message", "table", 7)
    assert table[3].endswith("set zero_damaged_pages = on; vacuum full skipmq.message")
    assert index[:4] == (
        *("skipmq.message_visible", "index", 5),
        "reindex index concurrently skipmq.message_visible",
    )


def test_damage_is_a_state_of_the_database_and_a_metric(
    owner: Connection, node: Connection
) -> None:
    node.execute(
        "select skipmq.note_damage('index \"message_visible\" contains corrupted page at block 5')"
    )

    assert number(node, "select skipmq.database_state()") == "damaged"
    metric = "select label, value from skipmq.database_statistics() where name = 'damaged pages'"
    assert node.execute(metric).fetchall() == [("skipmq.message_visible", 1.0)]
    (found,) = number(owner, "select damage from skipmq.database_overview()")
    assert found["relation"] == "skipmq.message_visible"
