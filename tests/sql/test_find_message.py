from typing import Any
from uuid import uuid4

from support.fifo import FifoQueue
from support.sql import Queue, advance, number, redrive_policy

FIND = "select id, name, state, receives, is_whole from skipmq.find_message(%s, %s, %s, %s)"
ROWS = 50_000
FILL = """
  insert into skipmq.message (id, visible_at, sent_at, enqueued_at, queue_id, message_id, body)
  select nextval('skipmq.message_id_seq'), t, t, t, %s, gen_random_uuid(), 'x'
  from generate_series(1, %s) n, lateral (select now() - n * interval '1 ms' as t) x
"""


def find(queue: Any, message: str, reference: int | None = None, most: int = 100) -> Any:
    found = queue.connection.execute(FIND, (queue.id, message, reference, most)).fetchall()
    (row,) = found
    return row


def test_message_is_found_in_each_state(orders: Queue) -> None:
    (first,) = orders.send("a")
    assert find(orders, first)[1:] == ("orders", "visible", 0, True)
    orders.receive()
    assert find(orders, first)[1:] == ("orders", "in-flight", 1, True)
    (later,) = orders.send("b", delay=60)
    assert find(orders, later)[1:4] == ("orders", "delayed", 0)
    advance(orders.connection, "5 days")

    assert find(orders, first)[1:4] == ("orders", "expired", 1)


def test_fifo_message_is_found(fifo: FifoQueue) -> None:
    _, sent = fifo.put("g:a", "g:b")

    assert find(fifo, sent.message_id)[1:3] == ("orders.fifo", "visible")


def test_what_is_not_there_is_said_with_what_was_searched(orders: Queue) -> None:
    orders.send("a", "b", "c")

    assert find(orders, str(uuid4())) == (None, None, None, None, True)
    assert find(orders, str(uuid4()), most=2) == (None, None, None, None, False)


def test_number_finds_a_message_wherever_it_is(orders: Queue) -> None:
    owner = orders.connection
    Queue(owner, "dead")
    source = Queue(owner, "source", RedrivePolicy=redrive_policy())
    (message,) = source.send("a")
    reference = int(find(source, message)[0])
    source.receive(timeout=0)
    source.receive()

    assert find(source, message)[0] is None
    assert find(orders, message, reference)[:3] == (reference, "dead", "visible")
    assert find(orders, str(uuid4()), reference)[0] is None


def test_message_of_a_purged_queue_is_found_by_its_number(orders: Queue) -> None:
    (message,) = orders.send("a")
    reference = int(find(orders, message)[0])
    number(orders.connection, "select skipmq.purge_queue(%s, '0')", orders.id)

    assert find(orders, message, reference)[1:3] == ("orders", "purged")


def test_search_reads_no_more_of_a_long_queue_than_it_may(orders: Queue) -> None:
    orders.connection.execute(FILL, (orders.id, ROWS))

    (tree,) = number(
        orders.connection,
        "explain (analyze, buffers, format json) " + FIND,
        *(orders.id, str(uuid4()), None, 1_000),
    )

    assert tree["Plan"]["Shared Hit Blocks"] + tree["Plan"]["Shared Read Blocks"] < 700
