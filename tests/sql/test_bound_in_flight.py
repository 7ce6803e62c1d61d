import psycopg
import pytest

from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import Queue, number


def bound(queue: Queue, limit: int) -> int:
    return int(
        number(queue.connection, "select skipmq.bound_in_flight(%s, %s::int)", queue.id, limit)
    )


def test_bound_is_the_number_of_all_messages_while_they_are_few(orders: Queue) -> None:
    orders.send(*"abcdef")
    orders.receive(4)

    assert bound(orders, 14) == 6


@pytest.mark.parametrize(("limit", "count"), [(12, 4), (3, 3)])
def test_bound_of_many_messages_counts_those_in_flight(
    orders: Queue, limit: int, count: int
) -> None:
    orders.send(*"abcdef")
    orders.receive(4)

    assert bound(orders, limit) == count


def test_bound_of_a_fifo_queue_counts_those_in_flight(owner: Connection) -> None:
    fifo = FifoQueue(owner)
    fifo.put("a:1", "a:2", "b:1")
    fifo.receive(2)

    assert bound(fifo, 4) == 2


def blocks(queue: Queue, function: str) -> int:
    """Return how many blocks a call of a function of the queue reads, once it was called."""
    call = f"select skipmq.{function}(%s)"
    number(queue.connection, call, queue.id)
    explain = f"explain (analyze, buffers, format json) {call}"
    (found,) = number(queue.connection, explain, queue.id)
    return int(found["Plan"]["Shared Hit Blocks"] + found["Plan"]["Shared Read Blocks"])


def test_bound_reads_nothing_of_what_is_dead_while_a_transaction_is_open(
    orders: Queue, database: str
) -> None:
    with psycopg.connect(database) as held:
        held.execute("select pg_current_xact_id()")
        for _ in range(100):
            orders.send(*["x" * 1500] * 10)
            orders.delete(*orders.receive(10))

        assert blocks(orders, "count_in_flight") > 200
        assert blocks(orders, "bound_in_flight") < 100
