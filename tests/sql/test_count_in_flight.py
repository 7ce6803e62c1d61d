from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import Queue, advance, number


def in_flight(queue: Queue, most: int = 1000) -> int:
    return int(
        number(queue.connection, "select skipmq.count_in_flight(%s, %s::int)", queue.id, most)
    )


def test_standard_queue_counts_the_received_and_hidden(orders: Queue) -> None:
    orders.send(*"abcdef")
    orders.send("later", delay=60)
    received = orders.receive(4, timeout=30)
    orders.hide(0, received[0])

    assert in_flight(orders) == 3
    assert in_flight(orders, 2) == 2
    advance(orders.connection, "31 s")
    assert in_flight(orders) == 0


def test_fifo_queue_counts_the_received_and_hidden(owner: Connection) -> None:
    fifo = FifoQueue(owner, DelaySeconds=5)
    fifo.put("a:1", "a:2", "a:3", "b:1", "c:1")
    assert in_flight(fifo) == 0
    advance(owner, "6 s")
    one, _ = fifo.receive(2)
    assert in_flight(fifo) == 2
    assert fifo.take(1) == ["b:1"]
    assert in_flight(fifo) == 3
    fifo.hide(0, one)

    assert in_flight(fifo) == 2
    assert in_flight(fifo, 1) == 1
