from support.postgres import Connection
from support.sql import Queue, advance


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
