import psycopg

from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import Queue, number

PENDING = "select count(*) from skipmq.queue_delta"


def test_fold_keeps_the_counts(orders: Queue) -> None:
    orders.send("a", "b", "c")
    orders.delete(*orders.receive(1))
    assert orders.counts() == (2, 0, 0)
    assert number(orders.connection, PENDING) == 2

    assert number(orders.connection, "select skipmq.fold_counts()") == 2

    assert number(orders.connection, PENDING) == 0
    assert orders.counts() == (2, 0, 0)
    orders.send("d")
    assert orders.counts() == (3, 0, 0)


def test_fold_leaves_what_has_not_been_committed(orders: Queue, database: str) -> None:
    orders.send("a")
    with psycopg.connect(database) as slow:
        orders.on(slow).send("b", "c")
        assert number(orders.connection, "select skipmq.fold_counts(true)") == 1
        slow.commit()

    assert orders.counts() == (3, 0, 0)
    assert number(orders.connection, "select skipmq.fold_counts()") == 1
    assert orders.counts() == (3, 0, 0)


def test_changes_of_long_transactions_are_found_by_the_fold_of_all(orders: Queue) -> None:
    orders.connection.execute("update skipmq.cluster set counted_to = now() + interval '1 hour'")
    orders.send("a")
    assert number(orders.connection, "select skipmq.fold_counts()") == 0
    assert orders.counts() == (0, 0, 0)

    assert number(orders.connection, "select skipmq.fold_counts(true)") == 1

    assert orders.counts() == (1, 0, 0)


def test_one_at_a_time(owner: Connection, database: str) -> None:
    Queue(owner).send("a")
    with psycopg.connect(database) as other:
        assert number(other, "select skipmq.fold_counts()") == 1
        assert number(owner, "select skipmq.fold_counts()") == 0


def test_first_fold_of_all_counts_what_left_no_changes(orders: Queue) -> None:
    orders.send("a", "b", "c")
    orders.connection.execute("delete from skipmq.queue_delta")
    orders.send("d")
    fifo = FifoQueue(orders.connection)
    fifo.put("a:1", "b:1")
    orders.connection.execute("delete from skipmq.queue_delta where queue_id = %s", (fifo.id,))

    number(orders.connection, "select skipmq.fold_counts(true)")
    orders.send("e")
    number(orders.connection, "select skipmq.fold_counts(true)")

    assert orders.counts() == (5, 0, 0)
    assert fifo.counts() == (2, 0, 0)
