from support.postgres import Connection
from support.sql import Queue


def names(
    connection: Connection, prefix: str = "", after: str = "", limit: int = 1000
) -> list[str]:
    rows = connection.execute(
        "select * from skipmq.list_queues('000000000000', 'us-east-1', %s, %s, %s::int)",
        (prefix, after, limit),
    ).fetchall()
    return [name for (name,) in rows]


def test_list_gives_names_in_byte_order(node: Connection) -> None:
    for name in ["b", "B", "a_1", "a-1", "a"]:
        Queue(node, name)

    assert names(node) == ["B", "a", "a-1", "a_1", "b"]


def test_list_with_prefix_takes_it_literally(node: Connection) -> None:
    for name in ["a_1", "ab1", "a_2"]:
        Queue(node, name)

    assert names(node, prefix="a_") == ["a_1", "a_2"]


def test_list_in_pages_gives_each_name_once(node: Connection) -> None:
    for n in range(7):
        Queue(node, f"q{n}")

    first = names(node, limit=3)
    second = names(node, after=first[-1], limit=3)
    third = names(node, after=second[-1], limit=3)

    assert first + second + third == [f"q{n}" for n in range(7)]
