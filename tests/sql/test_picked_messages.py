import psycopg
import pytest

from support.fifo import FifoQueue
from support.sql import Queue, number

PICKED = (
    "select array(select array[p.body, p.state] from (select %s::bigint as queue_id) q,"
    " lateral (select array_agg(m.id order by b.place) as ids,"
    " array_agg(m.message_id order by b.place) as message_ids"
    " from unnest(%s::text[]) with ordinality b (body, place)"
    " join skipmq.message m using (body)) w,"
    " lateral skipmq.picked_messages(q.queue_id, w.ids, w.message_ids, %s) p)"
)


def test_picked_messages_have_the_order_of_their_ids(orders: Queue) -> None:
    orders.send("received")
    orders.receive(timeout=60)
    orders.send("visible", "other")
    orders.send("later", delay=60)

    found = number(
        orders.connection, PICKED, orders.id, ["later", "visible", "received", "none"], None
    )

    assert found == [["later", "delayed"], ["visible", "visible"], ["received", "in-flight"]]


def test_picked_messages_are_of_the_queue_and_within_retention(orders: Queue) -> None:
    other = Queue(orders.connection, "other")
    other.send("elsewhere")
    orders.send("old", "young")
    orders.connection.execute("update skipmq.message set enqueued_at = 'epoch' where body = 'old'")

    found = number(orders.connection, PICKED, orders.id, ["elsewhere", "old", "young"], None)

    assert found == [["young", "visible"]]


def test_picked_messages_end_by_their_bytes(orders: Queue) -> None:
    orders.send("a" * 100, "b" * 100, "c" * 100)

    found = number(orders.connection, PICKED, orders.id, ["a" * 100, "b" * 100, "c" * 100], 101)

    assert [body[0] for body, _ in found] == ["a", "b"]


def test_delay_of_a_fifo_queue_delays_its_messages(fifo: FifoQueue) -> None:
    fifo.connection.execute("update skipmq.queue set delay_seconds = 60")
    fifo.put("g:later")

    assert number(fifo.connection, PICKED, fifo.id, ["later"], None) == [["later", "delayed"]]


def test_retired_generation_is_refused(orders: Queue) -> None:
    with pytest.raises(psycopg.Error) as caught:
        number(orders.connection, PICKED, orders.id + 1, ["x"], None)

    assert caught.value.sqlstate == "SQ005"
