import psycopg

from support.fifo import FifoQueue
from support.sql import advance, number

AVAILABLE = "select available_at <= now() from skipmq.message_group where queue_id = %s"
REFRESH = """
  select skipmq.refresh_groups(
    %s, array(select group_no from skipmq.message_group where queue_id = %s))
"""
SOON = """
  select available_at - clock_timestamp() < '1 s' from skipmq.message_group where queue_id = %s
"""


def test_group_follows_its_first_message(fifo: FifoQueue) -> None:
    fifo.put("a:1", "a:2")
    one, _ = fifo.receive()
    assert number(fifo.connection, AVAILABLE, fifo.id) is False

    fifo.hide(0, one)

    assert number(fifo.connection, AVAILABLE, fifo.id) is True


def test_first_number_moves_with_the_deletes(fifo: FifoQueue) -> None:
    sent = fifo.put("a:1", "a:2", "a:3")
    fifo.delete(*fifo.receive(2))

    first = "select first_number from skipmq.message_group where queue_id = %s"
    assert number(fifo.connection, first, fifo.id) == sent[2].sequence_number


def test_empty_group_with_a_sender_is_read_again_soon(fifo: FifoQueue, database: str) -> None:
    fifo.put("a:1")
    received = fifo.receive()
    with psycopg.connect(database) as sender:
        fifo.on(sender).put("a:2")
        fifo.delete(*received)
        assert number(fifo.connection, SOON, fifo.id) is True

        sender.rollback()

    fifo.connection.execute(REFRESH, (fifo.id, fifo.id))
    assert fifo.groups() == 0


def test_group_row_stays_where_later_messages_cannot_be_seen(
    fifo: FifoQueue, database: str
) -> None:
    fifo.put("a:1")
    received = fifo.receive()
    with psycopg.connect(database) as past:
        past.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        past.execute("select from skipmq.queue")
        fifo.put("a:2")
        assert fifo.on(past).delete(*received) == 1

    advance(fifo.connection, "1 s")
    assert fifo.take() == ["a:2"]
