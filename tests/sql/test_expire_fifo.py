import psycopg

from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import advance, history, number


def test_expired_messages_are_settled_and_groups_go_on(owner: Connection) -> None:
    fifo = FifoQueue(owner, MessageRetentionPeriod=60)
    fifo.put("a:1", "b:1")
    advance(owner, "30 s")
    fifo.put("a:2")
    advance(owner, "61 s")
    assert fifo.counts() == (1, 0, 0)

    assert number(owner, "select skipmq.expire_messages()") == 2

    assert history(owner) == [("expired",), ("expired",)]
    assert fifo.groups() == 1
    assert fifo.take() == ["a:2"]


def test_message_in_flight_is_left(owner: Connection) -> None:
    fifo = FifoQueue(owner, MessageRetentionPeriod=60)
    fifo.put("a:1", "b:1")
    fifo.receive(1, timeout=300)
    advance(owner, "61 s")

    assert number(owner, "select skipmq.expire_messages()") == 1
    assert fifo.counts() == (0, 1, 0)


def test_group_that_another_holds_is_left(owner: Connection, database: str) -> None:
    fifo = FifoQueue(owner, MessageRetentionPeriod=60)
    fifo.put("a:1", "b:1")
    with psycopg.connect(database) as other:
        assert fifo.on(other).take(1) == ["a:1"]
        advance(owner, "61 s")

        assert number(owner, "select skipmq.expire_messages()") == 1


def test_chunks(owner: Connection) -> None:
    fifo = FifoQueue(owner, MessageRetentionPeriod=60)
    fifo.put(*[f"{n % 3}:{n}" for n in range(10)])
    advance(owner, "61 s")

    done = [number(owner, "select skipmq.expire_messages(4)") for _ in range(4)]

    assert done == [4, 4, 2, 0]
    assert fifo.groups() == 0
