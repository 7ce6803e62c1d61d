from typing import Any

import psycopg

from support.postgres import Connection
from support.sql import Queue, advance, redrive_policy

QUERY = "select * from skipmq.dead_letter_queues('000000000000', 'us-east-1', %s, %s, %s)"


def found(
    connection: Connection, search: str = "", limit: int = 50, offset: int = 0
) -> list[dict[str, Any]]:
    connection.execute("select skipmq.fold_counts()")
    cursor = connection.cursor(row_factory=psycopg.rows.dict_row)
    return cursor.execute(QUERY, (search, limit, offset)).fetchall()


def kill(queue: Queue, *bodies: str) -> None:
    """Send messages and have them go to the dead-letter queue."""
    queue.send(*bodies)
    while queue.receive(timeout=0):
        pass


def test_queue_has_its_sources_and_what_came_from_each(owner: Connection) -> None:
    dead = Queue(owner, "dead")
    kill(Queue(owner, "a", RedrivePolicy=redrive_policy(most=2)), "1", "2")
    Queue(owner, "b", RedrivePolicy=redrive_policy(most=5), Policy='{"Statement":[]}').send("x")
    dead.send("3")

    first, others = found(owner)

    assert (first["name"], first["messages"], first["arrived"]) == ("dead", 3, 3)
    assert first["queue_id"] == dead.id
    assert first["oldest"] >= 0
    assert first["source_count"] == 2
    assert first["sources"] == [
        {"name": "a", "most": 2, "policy": "", "messages": 0, "moved": 2},
        {"name": "b", "most": 5, "policy": '{"Statement":[]}', "messages": 1, "moved": 0},
    ]
    assert (others["name"], others["queues"]) == (None, 0)


def test_what_arrived_is_that_of_the_last_minutes(owner: Connection) -> None:
    Queue(owner, "dead")
    kill(Queue(owner, "a", RedrivePolicy=redrive_policy()), "1")
    assert found(owner)[0]["arrived"] == 1

    advance(owner, "7 hours")

    assert (found(owner)[0]["messages"], found(owner)[0]["arrived"]) == (1, 0)
    assert found(owner)[0]["sources"][0]["moved"] == 0
    assert found(owner)[0]["oldest"] > 6 * 3600


def test_queue_that_is_gone_comes_first_and_the_fullest_next(owner: Connection) -> None:
    for name, count in (("one", 1), ("two", 2), ("none", 0)):
        target = Queue(owner, f"dead-{name}")
        Queue(owner, name, RedrivePolicy=redrive_policy(f"dead-{name}"))
        if count:
            target.send(*["x"] * count)
    gone = Queue(owner, "dead-gone")
    Queue(owner, "lost", RedrivePolicy=redrive_policy("dead-gone"))
    owner.execute("select skipmq.delete_queue(%s)", (gone.id,))

    names = [(each["name"], each["queue_id"] is None) for each in found(owner)]

    assert names == [
        ("dead-gone", True),
        ("dead-two", False),
        ("dead-one", False),
        ("dead-none", False),
        (None, True),
    ]


def test_page_leaves_the_sums_of_all_others(owner: Connection) -> None:
    for number in range(4):
        Queue(owner, f"dead-{number}").send(*["x"] * (number + 1))
        Queue(owner, f"q-{number}", RedrivePolicy=redrive_policy(f"dead-{number}"))

    first, second, others = found(owner, limit=2, offset=1)

    assert [first["name"], second["name"]] == ["dead-2", "dead-1"]
    assert (others["queues"], others["messages"], others["source_count"]) == (2, 5, 2)


def test_search_finds_queues_and_those_that_name_them(owner: Connection) -> None:
    for name in ("orders", "mails"):
        Queue(owner, f"{name}-dead")
        Queue(owner, f"from-{name}", RedrivePolicy=redrive_policy(f"{name}-dead"))

    assert [each["name"] for each in found(owner, "FROM-MAILS")] == ["mails-dead", None]
    assert [each["name"] for each in found(owner, "orders-d")] == ["orders-dead", None]
    assert [each["name"] for each in found(owner, "%")] == [None]


def test_chain_is_seen_and_many_sources_are_counted(owner: Connection) -> None:
    Queue(owner, "last")
    Queue(owner, "dead", RedrivePolicy=redrive_policy("last"))
    for number in range(25):
        Queue(owner, f"q-{number:02}", RedrivePolicy=redrive_policy())

    dead, last, _ = found(owner)

    assert (dead["name"], dead["next_name"], dead["source_count"]) == ("dead", "last", 25)
    assert len(dead["sources"]) == 20
    assert (last["name"], last["next_name"], last["source_count"]) == ("last", None, 1)
