from support.fifo import FifoQueue
from support.sql import Queue, advance

NEW = (
    "select kind, source, messages from skipmq.new_failures("
    "%s, %s, skipmq.clock() - interval '1 hour')"
)
LEAVE = "update skipmq.message set attributes = skipmq.note_failure(attributes, %s) where body = %s"


def test_kinds_that_older_messages_have_are_not_new(orders: Queue, fifo: FifoQueue) -> None:
    connection = orders.connection

    def leave(body: str, reason: str) -> None:
        orders.send(body)
        fifo.put(f"g:{body}")
        connection.execute(LEAVE, (reason, body))

    leave("a", "Timeout 1")
    advance(connection, "2 hours")
    leave("b", "Timeout 2")
    leave("c", "KeyError")
    leave("d", "KeyError")

    for queue, is_fifo in ((orders, False), (fifo, True)):
        assert connection.execute(NEW, (queue.id, is_fifo)).fetchall() == [("KeyError", None, 2)]
