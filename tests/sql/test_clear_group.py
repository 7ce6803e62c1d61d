from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import advance, history, redrive_policy

POLICY = redrive_policy("dead.fifo")


def test_expired_and_dead_messages_of_one_group_make_way(owner: Connection) -> None:
    dead = FifoQueue(owner, "dead.fifo")
    fifo = FifoQueue(owner, RedrivePolicy=POLICY, MessageRetentionPeriod=60)
    fifo.put("a:expired")
    advance(owner, "40 s")
    fifo.put("a:dead", "a:fine")
    assert fifo.take(2, timeout=0) == ["a:expired", "a:dead"]
    advance(owner, "61 s")

    assert fifo.take() == ["a:fine"]
    assert history(owner) == [("expired",), ("dead-lettered",)]
    assert dead.take() == ["a:dead"]


def test_more_than_a_chunk_makes_way_in_one_receive(owner: Connection) -> None:
    fifo = FifoQueue(owner, MessageRetentionPeriod=60)
    fifo.put(*[f"a:{n}" for n in range(2500)])
    advance(owner, "61 s")
    fifo.put("a:fine")

    assert fifo.take() == ["a:fine"]
    assert fifo.counts() == (0, 1, 0)


def test_dead_messages_stay_when_the_dead_letter_queue_is_gone(owner: Connection) -> None:
    dead = FifoQueue(owner, "dead.fifo")
    fifo = FifoQueue(owner, RedrivePolicy=POLICY)
    fifo.put("a:1")
    owner.execute("select skipmq.delete_queue(%s)", (dead.id,))

    assert [fifo.take(timeout=0) for _ in range(3)] == [["a:1"]] * 3
