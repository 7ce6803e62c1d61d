from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import Queue, advance, number


def test_count_tells_visible_in_flight_and_delayed_apart(orders: Queue) -> None:
    orders.send("a", "b", "c", "d")
    orders.send("later", delay=60)
    orders.receive(limit=1)

    assert orders.counts() == (3, 1, 1)


def test_count_follows_time(orders: Queue) -> None:
    orders.send("a")
    orders.send("later", delay=60)
    orders.receive()

    advance(orders.connection, "61 seconds")

    assert orders.counts() == (2, 0, 0)


def test_count_leaves_out_what_has_expired(owner: Connection) -> None:
    queue = Queue(owner, MessageRetentionPeriod=60)
    queue.send("old")

    advance(owner, "61 seconds")

    assert queue.counts() == (0, 0, 0)


def test_count_of_other_queues_is_apart(node: Connection) -> None:
    Queue(node, "other").send("a")

    assert Queue(node).counts() == (0, 0, 0)


def test_count_of_fifo_queue_leaves_out_the_expired_but_not_for_one_in_flight(
    owner: Connection,
) -> None:
    queue = FifoQueue(owner, MessageRetentionPeriod=60)
    queue.put("a:1", "b:1")
    queue.receive(1, 600)
    advance(owner, "61 s")
    queue.put("c:1")

    assert queue.counts() == (1, 1, 0)


def test_count_of_fifo_queue_leaves_out_what_expired_within_its_delay(owner: Connection) -> None:
    queue = FifoQueue(owner, MessageRetentionPeriod=60, DelaySeconds=90)
    queue.put("a:1")
    advance(owner, "61 s")
    queue.put("a:2")

    assert queue.counts() == (0, 0, 1)


def test_count_of_fifo_queue_sees_the_delayed_before_one_received(fifo: FifoQueue) -> None:
    fifo.put("a:1")
    (first,) = fifo.receive()
    fifo.put("a:2", "b:1")
    assert fifo.take() == ["b:1"]
    fifo.delete(first)
    change = "select skipmq.set_queue_attributes(%s, jsonb_build_object('DelaySeconds', '60'))"
    number(fifo.connection, change, fifo.id)

    assert fifo.counts() == (0, 1, 1)
