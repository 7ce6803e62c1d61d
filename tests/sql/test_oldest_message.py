import psycopg

from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import Queue, Redrive, advance, number

OLDEST = "select skipmq.oldest_message(%s, false)"
OLDEST_OF_FIFO = "select skipmq.oldest_message(%s, true)"
DELAYED = """
  insert into skipmq.message (id, visible_at, sent_at, enqueued_at, queue_id, message_id, body)
  select nextval('skipmq.message_id_seq'), t + interval '5 minutes', t, t, %s,
    gen_random_uuid(), 'x'
  from generate_series(1, 10000) n, skipmq.clock() t
"""


def test_empty_queue_has_none(orders: Queue) -> None:
    assert number(orders.connection, OLDEST, orders.id) is None


def test_visible_message_is_as_old_as_its_send(orders: Queue) -> None:
    orders.send("a")
    advance(orders.connection, "90 seconds")
    orders.send("b")

    assert 90 <= number(orders.connection, OLDEST, orders.id) < 150


def test_delayed_message_has_no_age(owner: Connection, orders: Queue) -> None:
    later = FifoQueue(owner, "later.fifo", DelaySeconds=600)
    orders.send("b", delay=600)
    later.put("a:1")

    assert number(owner, OLDEST, orders.id) is None
    assert number(owner, OLDEST_OF_FIFO, later.id) is None
    advance(owner, "700 seconds")
    assert 700 <= number(owner, OLDEST, orders.id) < 760
    assert 700 <= number(owner, OLDEST_OF_FIFO, later.id) < 760


def test_message_that_was_delayed_is_as_old_as_its_send(orders: Queue) -> None:
    orders.send("late", delay=600)
    advance(orders.connection, "90 seconds")
    orders.send("early")

    assert number(orders.connection, OLDEST, orders.id) < 60
    advance(orders.connection, "700 seconds")
    assert 700 <= number(orders.connection, OLDEST, orders.id) < 760


def test_message_behind_very_many_delayed_ones_has_an_age(orders: Queue) -> None:
    orders.connection.execute(DELAYED, (orders.id,))
    assert number(orders.connection, OLDEST, orders.id) is None
    orders.send("a")

    advance(orders.connection, "90 seconds")
    assert 90 <= number(orders.connection, OLDEST, orders.id) < 150
    orders.receive()
    assert 90 <= number(orders.connection, OLDEST, orders.id) < 150


def test_order_of_ids_is_that_of_arrival_in_all_sessions(orders: Queue, database: str) -> None:
    with psycopg.connect(database, autocommit=True) as other:
        orders.on(other).send("first")
        orders.delete(*orders.receive())
        orders.send("second")
        advance(other, "90 seconds")
        orders.on(other).send("third")

        assert 90 <= number(other, OLDEST, orders.id) < 150


def test_messages_of_a_queue_that_was_moved_are_as_old_as_their_sends(orders: Queue) -> None:
    """The partition that they came from gave them higher ids than they would get here."""
    orders.send("moved")
    orders.connection.execute(
        "update skipmq.message set id = id + (3::bigint << 48) where queue_id = %s", (orders.id,)
    )
    advance(orders.connection, "90 seconds")
    orders.send("new")

    assert 90 <= number(orders.connection, OLDEST, orders.id) < 150


def test_message_is_as_old_as_its_send_until_it_is_deleted(orders: Queue) -> None:
    """However often it was received, and whatever is in flight or visible."""
    orders.send("a")
    for seconds in (90, 180, 270, 360):
        advance(orders.connection, f"{seconds} seconds")
        orders.send("b")
        received = orders.receive(10, timeout=60)
        assert seconds <= number(orders.connection, OLDEST, orders.id) < seconds + 60
        advance(orders.connection, f"{seconds + 61} seconds")
        assert seconds + 61 <= number(orders.connection, OLDEST, orders.id) < seconds + 120

    assert orders.delete(*(each for each in received if each["body"] == "a")) == 1

    assert 331 <= number(orders.connection, OLDEST, orders.id) < 391


def test_dead_lettered_message_is_as_old_as_its_send(owner: Connection) -> None:
    redrive = Redrive(owner, 2)
    advance(owner, "90 seconds")

    assert 90 <= number(owner, OLDEST, redrive.dead.id) < 150
    assert number(owner, OLDEST, redrive.source.id) is None


def test_fifo_message_is_as_old_as_its_arrival_until_it_is_deleted(
    owner: Connection, fifo: FifoQueue
) -> None:
    fifo.put("a:1", "b:1")
    advance(owner, "90 seconds")
    fifo.put("a:2")
    received = fifo.receive()

    assert 90 <= number(owner, OLDEST_OF_FIFO, fifo.id) < 150
    fifo.delete(*(each for each in received if each["body"] == "1"))
    assert number(owner, OLDEST_OF_FIFO, fifo.id) < 60
