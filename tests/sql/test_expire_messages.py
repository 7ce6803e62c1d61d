import psycopg

from support.postgres import Connection
from support.sql import Queue, advance, history, number


def test_expire_settles_old_messages_of_every_queue(owner: Connection) -> None:
    short, long = Queue(owner, "short", MessageRetentionPeriod=60), Queue(owner, "long")
    short.send("a", "b")
    long.send("c")
    advance(owner, "61 seconds")

    expired = number(owner, "select skipmq.expire_messages()")

    assert expired == 2
    assert history(owner, "outcome, queue_id") == [("expired", short.id)] * 2
    assert long.bodies() == ["c"]


def test_expire_does_at_most_a_chunk(owner: Connection) -> None:
    queue = Queue(owner, MessageRetentionPeriod=60)
    queue.send(*"abcde")
    advance(owner, "61 seconds")

    assert [number(owner, "select skipmq.expire_messages(2)") for _ in range(4)] == [2, 2, 1, 0]


def test_expire_leaves_what_is_in_flight(owner: Connection) -> None:
    queue = Queue(owner, MessageRetentionPeriod=60)
    queue.send("a")
    received = queue.receive(timeout=3600)
    advance(owner, "61 seconds")

    assert number(owner, "select skipmq.expire_messages()") == 0
    assert queue.delete(*received) == 1


def test_expire_while_another_is_at_it_does_nothing(database: str, owner: Connection) -> None:
    queue = Queue(owner, MessageRetentionPeriod=60)
    queue.send("a")
    advance(owner, "61 seconds")
    with psycopg.connect(database) as other:
        other.execute("select skipmq.expire_messages()")

        assert number(owner, "select skipmq.expire_messages()") == 0

    assert number(owner, "select skipmq.expire_messages()") == 1
