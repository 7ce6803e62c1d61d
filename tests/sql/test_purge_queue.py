import psycopg
import pytest

from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import Queue, advance, number


def purge(queue: Queue) -> None:
    queue.id = number(queue.connection, "select queue_id from skipmq.purge_queue(%s)", queue.id)


def test_purge_removes_waiting_delayed_and_in_flight_messages(orders: Queue) -> None:
    orders.send("waiting", "in flight")
    received = orders.receive(limit=1)
    orders.send("delayed", delay=1)

    purge(orders)

    advance(orders.connection, "1 hour")
    assert orders.bodies() == []
    assert orders.delete(*received) == 0
    assert orders.counts() == (0, 0, 0)


def test_purge_leaves_the_queue_usable_with_its_attributes(owner: Connection) -> None:
    queue = Queue(owner, VisibilityTimeout=77)

    purge(queue)
    queue.send("after")

    assert queue.bodies() == ["after"]
    assert number(owner, "select visibility_timeout from skipmq.queue") == 77


def test_purge_again_within_the_cooldown_is_refused(orders: Queue) -> None:
    purge(orders)

    with pytest.raises(psycopg.Error) as caught:
        purge(orders)
    advance(orders.connection, "61 seconds")
    purge(orders)

    assert caught.value.sqlstate == "SQ004"
    assert str(caught.value).startswith(
        "Only one PurgeQueue operation on orders is allowed every 60 seconds."
    )


def test_send_to_the_old_generation_raises_moved_and_stores_nothing(orders: Queue) -> None:
    old = orders.id
    purge(orders)
    orders.id = old

    with pytest.raises(psycopg.Error) as caught:
        orders.send("lost?")

    assert caught.value.sqlstate == "SQ005"


def test_past_of_the_queue_is_kept(orders: Queue) -> None:
    owner = orders.connection
    orders.send("a", "b", "c")
    orders.delete(*orders.receive(1))
    owner.execute("select skipmq.fold_counts()")
    orders.send("d")
    owner.execute("select skipmq.add_receives(%s, '{1}', '{0}')", ([orders.id],))

    ((orders.id, number_of_messages),) = owner.execute(
        "select * from skipmq.purge_queue(%s)", (orders.id,)
    ).fetchall()
    orders.send("e")
    owner.execute("select skipmq.clear_retired()")
    owner.execute("select skipmq.fold_counts()")

    assert number_of_messages == 3
    totals = "select messages, sent, received, deleted from skipmq.queue_statistics()"
    assert owner.execute(f"{totals} where queue = 'orders'").fetchall() == [(1, 5, 1, 1)]
    minutes = owner.execute(
        "select sum(sent), sum(deleted), (array_agg(messages order by minute desc))[1]"
        " from skipmq.queue_minutes(array[%s])",
        (orders.id,),
    ).fetchall()
    assert minutes == [(5, 1, 1)]


@pytest.mark.parametrize("name", ["orders", "orders.fifo"])
def test_purge_keeps_what_was_used_of_the_rates(owner: Connection, name: str) -> None:
    queue = (FifoQueue if name.endswith(".fifo") else Queue)(owner, name)
    queue.set(MaximumReceiveRatePerGroup="0.1")
    again = (
        "select skipmq.send_fifo_message(%s, 'x', 'a', gen_random_uuid()::text)"
        if name.endswith(".fifo")
        else "select skipmq.send_message(%s, 'x', p_group_id => 'a')"
    )
    owner.execute(again, (name,))
    assert len(queue.receive()) == 1

    purge(queue)
    owner.execute(again, (name,))

    assert queue.receive() == []
    advance(owner, "10 seconds")
    assert len(queue.receive()) == 1
