import psycopg
import pytest

from support.fifo import FifoQueue
from support.postgres import Connection, as_node
from support.replays import ids, stage
from support.sql import Queue, number

SEND = "select skipmq.send_replay('r', %s, %s)"


def test_staged_messages_are_sent_once_in_order_and_lose_their_bodies(orders: Queue) -> None:
    owner = orders.connection
    stage(owner, 3, 1, 2)

    sent = [number(owner, SEND, orders.id, 2) for _ in range(3)]

    assert sent == [2, 1, 0]
    assert orders.bodies() == ["1", "2", "3"]
    assert len(ids(owner, "sent_at is not null and body is null and attributes is null")) == 3


def test_a_node_may_send_and_not_touch_the_table(orders: Queue, database: str) -> None:
    stage(orders.connection, 1)

    with psycopg.connect(as_node(database), autocommit=True) as node:
        sent = number(node, SEND, orders.id, 10)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            node.execute("select from skipmq.replay_message")

    assert sent == 1


def test_groups_of_a_fifo_queue_keep_their_order(fifo: FifoQueue) -> None:
    stage(fifo.connection, 1, 2, 3, group="g")

    number(fifo.connection, SEND, fifo.id, 2)
    number(fifo.connection, SEND, fifo.id, 2)

    assert [row["body"] for row in fifo.receive()] == ["1", "2", "3"]


def test_nothing_is_marked_as_sent_when_the_queue_is_gone(owner: Connection) -> None:
    stage(owner, 1)

    with pytest.raises(psycopg.errors.DatabaseError) as raised:
        owner.execute(SEND, (12345, 10))

    assert raised.value.sqlstate == "SQ005"
    assert ids(owner, "sent_at is null") == ids(owner)


def test_what_was_sent_once_is_not_checked_again(owner: Connection) -> None:
    orders = Queue(owner, MaximumMessageSize=1024)
    stage(owner, 1)
    owner.execute("update skipmq.replay_message set body = repeat('x', 1025)")

    assert number(owner, SEND, orders.id, 10) == 1
    assert orders.bodies() == ["x" * 1025]
