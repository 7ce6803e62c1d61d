from support.postgres import Connection
from support.sql import Queue, redrive_policy

POLICY = redrive_policy()


def sources(connection: Connection, after: str = "", limit: int = 10) -> list[str]:
    rows = connection.execute(
        "select * from skipmq.dead_letter_sources(%s, 'us-east-1', 'dead', %s, %s::int)",
        ("000000000000", after, limit),
    ).fetchall()
    return [name for (name,) in rows]


def test_sources_are_those_whose_policy_names_the_queue(node: Connection) -> None:
    Queue(node, "dead")
    Queue(node, "other")
    for name in ("c", "a", "b"):
        Queue(node, name, RedrivePolicy=POLICY)

    assert sources(node) == ["a", "b", "c"]
    assert sources(node, after="a", limit=1) == ["b"]
