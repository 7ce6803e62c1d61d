import psycopg
import pytest

from support.postgres import Connection
from support.sql import Queue, number


def test_delete_hides_queue_and_messages_at_once(node: Connection) -> None:
    queue = Queue(node)
    queue.send("a")

    node.execute("select skipmq.delete_queue(%s)", (queue.id,))

    with pytest.raises(psycopg.Error) as caught:
        queue.receive()
    assert caught.value.sqlstate == "SQ005"


def test_delete_twice_raises_moved(node: Connection) -> None:
    queue = Queue(node)
    node.execute("select skipmq.delete_queue(%s)", (queue.id,))

    with pytest.raises(psycopg.Error) as caught:
        node.execute("select skipmq.delete_queue(%s)", (queue.id,))

    assert caught.value.sqlstate == "SQ005"


def test_number_of_messages_is_returned(orders: Queue) -> None:
    orders.send("a", "b")

    assert number(orders.connection, "select skipmq.delete_queue(%s)", orders.id) == 2
