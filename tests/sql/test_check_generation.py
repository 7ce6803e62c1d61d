import psycopg
import pytest

from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import Queue, number

STANDARD = "select skipmq.check_generation(%s, false)"
FIFO = "select skipmq.check_generation(%s, true)"


def test_present_generation_of_the_right_type_passes(orders: Queue, fifo: FifoQueue) -> None:
    number(orders.connection, STANDARD, orders.id)
    number(orders.connection, FIFO, fifo.id)


@pytest.mark.parametrize("fifo", [True, False])
def test_queue_of_the_other_type_is_refused(owner: Connection, fifo: bool) -> None:
    queue = FifoQueue(owner) if fifo else Queue(owner)

    with pytest.raises(psycopg.Error) as caught:
        number(owner, STANDARD if fifo else FIFO, queue.id)

    assert caught.value.sqlstate == "SQ007"


def test_purged_generation_is_refused(orders: Queue) -> None:
    orders.connection.execute("select skipmq.purge_queue(%s)", (orders.id,))

    with pytest.raises(psycopg.Error) as caught:
        number(orders.connection, STANDARD, orders.id)

    assert caught.value.sqlstate == "SQ005"
