from support.fifo import FifoQueue
from support.sql import Queue

REPEATED = "select messages, receives from skipmq.repeated_messages(%s, %s)"


def test_oldest_messages_with_many_receives_are_counted(orders: Queue, fifo: FifoQueue) -> None:
    connection = orders.connection
    orders.send("a", "b", "c")
    fifo.put("g:a", "g:b")
    assert connection.execute(REPEATED, (orders.id, False)).fetchone() == (0, None)

    connection.execute("update skipmq.message set receive_count = 6 where body in ('a', 'b')")
    connection.execute("update skipmq.message set receive_count = 9 where body = 'a'")

    assert connection.execute(REPEATED, (orders.id, False)).fetchone() == (2, 9)
    assert connection.execute(REPEATED, (fifo.id, True)).fetchone() == (2, 9)
