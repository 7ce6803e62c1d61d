from support.postgres import Connection
from support.topics import Topic


def test_topics_are_listed_in_order_by_pages(owner: Connection) -> None:
    for name in ("b", "a", "c"):
        Topic(owner, name)

    rows = owner.execute(
        "select * from skipmq.list_topics('000000000000', 'us-east-1', 'a', 1)"
    ).fetchall()
    assert rows == [("b",)]
