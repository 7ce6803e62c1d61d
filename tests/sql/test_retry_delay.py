import pytest

from support.fifo import FifoQueue
from support.sql import Queue, advance

BACKOFF = '{"base":10,"factor":3,"jitter":0,"maximum":60}'


def store(queue: Queue) -> None:
    if isinstance(queue, FifoQueue):
        queue.put("group:a")
    else:
        queue.send("a")


@pytest.mark.parametrize(("receives", "seconds"), [(1, 10), (2, 30), (3, 60), (2147483647, 60)])
def test_delay_grows_by_the_factor_up_to_the_maximum(
    orders: Queue, receives: int, seconds: int
) -> None:
    delay = "select extract(epoch from skipmq.retry_delay(%s, %s))"

    assert orders.connection.execute(delay, (BACKOFF, receives)).fetchone() == (seconds,)


def test_jitter_takes_away_at_most_its_part(orders: Queue) -> None:
    with_jitter = BACKOFF.replace('"jitter":0', '"jitter":0.5')
    delays = (
        "select count(*) filter (where d between 5 and 10), count(distinct d) from (select"
        " extract(epoch from skipmq.retry_delay(%s, 1)) as d from generate_series(1, 20)) s"
    )

    (within, different) = orders.connection.execute(delays, (with_jitter,)).fetchone() or ()

    assert within == 20
    assert different > 1


@pytest.mark.parametrize("queue_type", [Queue, FifoQueue])
def test_redelivery_waits_for_the_backoff_after_the_visibility_timeout(
    orders: Queue, queue_type: type[Queue]
) -> None:
    name = f"backed-off{'.fifo' * (queue_type is FifoQueue)}"
    queue = queue_type(orders.connection, name, RetryBackoff=BACKOFF)
    store(queue)
    queue.receive()

    advance(orders.connection, "35 seconds")
    assert queue.bodies() == []
    advance(orders.connection, "41 seconds")
    assert queue.bodies() == ["a"]
    # The second delay, of 30 seconds, follows the visibility timeout of 30.
    advance(orders.connection, "95 seconds")
    assert queue.bodies() == []
    advance(orders.connection, "102 seconds")
    assert queue.bodies() == ["a"]


@pytest.mark.parametrize("queue_type", [Queue, FifoQueue])
def test_message_that_is_made_visible_waits_for_the_backoff(
    orders: Queue, queue_type: type[Queue]
) -> None:
    name = f"backed-off{'.fifo' * (queue_type is FifoQueue)}"
    queue = queue_type(orders.connection, name, RetryBackoff=BACKOFF)
    store(queue)

    assert queue.hide(0, *queue.receive()) == ["changed"]

    advance(orders.connection, "9 seconds")
    assert queue.bodies() == []
    advance(orders.connection, "11 seconds")
    assert queue.bodies() == ["a"]


def test_several_queues_are_received_from_with_their_own_backoff(orders: Queue) -> None:
    queue = Queue(orders.connection, "backed-off", RetryBackoff=BACKOFF)
    queue.send("a")
    orders.send("b")
    orders.connection.execute(
        "select * from skipmq.receive_from_queues(%s, '{1,1}', '{30,30}', 'off', '{null,null}',"
        " '{null,null}', '{epoch,epoch}', '1 second', null, null, null, '{null,null}')",
        ([queue.id, orders.id],),
    )

    advance(orders.connection, "35 seconds")

    assert queue.bodies() == []
    assert orders.bodies() == ["b"]
