import psycopg
import pytest

from support.postgres import Connection
from support.sql import Queue, number


def test_queue_id_of_a_name_is_its_generation(node: Connection) -> None:
    queue = Queue(node)

    assert number(node, "select skipmq.queue_id('orders')") == queue.id


def test_queue_id_of_no_queue_raises_with_the_remedy(node: Connection) -> None:
    with pytest.raises(psycopg.Error) as caught:
        node.execute("select skipmq.queue_id('orders')")

    assert caught.value.sqlstate == "SQ001"
    assert caught.value.diag.message_hint == "select skipmq.create_queue('orders')"
