from support.postgres import Connection
from support.sql import Queue, advance, redrive_policy

QUERY = (
    "select name, received, deleted, messages"
    " from skipmq.redelivering_queues('000000000000', 'us-east-1', %s)"
)


def found(connection: Connection, search: str = "") -> list[tuple[object, ...]]:
    connection.execute("select skipmq.fold_counts()")
    return [tuple(row) for row in connection.execute(QUERY, (search,)).fetchall()]


def deliver(queue: Queue, times: int, timeout: int = 0) -> None:
    """Receive messages and count them as a node does."""
    for _ in range(times):
        received = len(queue.receive(10, timeout=timeout))
        add = "select skipmq.add_receives(%s, %s, %s)"
        queue.connection.execute(add, ([queue.id], [received], [0]))


def test_queue_that_delivers_the_same_again_is_found(orders: Queue) -> None:
    orders.send("poison", "fine")
    deliver(orders, 5)
    orders.delete(*orders.receive(1))

    assert found(orders.connection) == []  # Nine ended without a delete.

    deliver(orders, 6)
    assert found(orders.connection) == [("orders", 16, 1, 1)]
    assert found(orders.connection, "ORD") == found(orders.connection)
    assert found(orders.connection, "mails") == []


def test_what_is_in_flight_or_deleted_is_no_redelivery(orders: Queue) -> None:
    orders.send(*["x"] * 30)
    deliver(orders, 3, timeout=600)

    assert found(orders.connection) == []

    advance(orders.connection, "11 minutes")
    assert [name for name, *_ in found(orders.connection)] == ["orders"]


def test_queue_with_a_dead_letter_queue_and_that_one_are_left_out(owner: Connection) -> None:
    dead = Queue(owner, "dead")
    source = Queue(owner, "source", RedrivePolicy=redrive_policy(most=1000))
    for queue in (dead, source):
        queue.send("x")
        deliver(queue, 20)

    assert found(owner) == []


def test_what_was_hours_ago_is_forgotten(orders: Queue) -> None:
    orders.send("poison")
    deliver(orders, 12)
    assert found(orders.connection)

    advance(orders.connection, "7 hours")

    assert found(orders.connection) == []
