import psycopg

from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import number

LOCK = "select skipmq.lock_for_sending(%s, %s::text[], %s::int[])"


def test_all_groups_that_are_free_are_locked(fifo: FifoQueue, database: str) -> None:
    with psycopg.connect(database) as sender:
        assert number(sender, LOCK, fifo.id, ["a", "b", "a"], [0, 0, 1]) is None

        assert number(fifo.connection, LOCK, fifo.id, ["a", "c"], [0, 1]) == [2]
        assert number(fifo.connection, LOCK, fifo.id, ["b"], [0]) == []
        assert number(fifo.connection, LOCK, fifo.id, ["c"], [0]) is None


def test_requests_are_set_aside_whole(fifo: FifoQueue, database: str) -> None:
    with psycopg.connect(database) as sender:
        number(sender, LOCK, fifo.id, ["held"], None)

        places = number(
            fifo.connection, LOCK, fifo.id, ["a", "held", "b", "c", "held"], [0, 0, 1, 2, 3]
        )

    assert places == [3, 4]


def test_same_group_of_another_queue_is_another_group(owner: Connection, database: str) -> None:
    one, two = FifoQueue(owner, "one.fifo"), FifoQueue(owner, "two.fifo")
    with psycopg.connect(database) as sender:
        number(sender, LOCK, one.id, ["a"], None)

        assert number(owner, LOCK, two.id, ["a"], [0]) is None
