import pytest

from support.postgres import Connection
from support.sql import Queue, advance, number, receipts, redrive_policy

ACT = "select outcome from skipmq.reschedule_messages(%s, array[null::bigint], %s::uuid[], %s)"
BY_ID = "select outcome from skipmq.reschedule_messages(%s, array[%s], array[%s], %s)"
DAY = 86_400


def reschedule(queue: Queue, message_id: str, seconds: int) -> str:
    row = queue.connection.execute(ACT, (queue.id, [message_id], seconds)).fetchone()
    assert row is not None
    return str(row[0])


@pytest.mark.parametrize("seconds", [60, 2 * DAY])
def test_delayed_message_moves_to_another_time(owner: Connection, seconds: int) -> None:
    queue = Queue(owner, MaximumDelaySeconds=10 * DAY, MessageRetentionPeriod=120)
    (message,) = queue.send("x", delay=DAY)

    assert reschedule(queue, message, seconds) == "changed"

    assert queue.counts() == (0, 0, 1)
    advance(owner, f"{seconds - 1} s")
    assert queue.bodies() == []
    advance(owner, f"{seconds + 30} s")
    assert queue.counts() == (1, 0, 0)
    assert queue.bodies() == ["x"]


@pytest.mark.parametrize("limit", ["", "9"])
def test_dead_letter_is_counted_as_hidden(orders: Queue, limit: str) -> None:
    dead = Queue(orders.connection, "dead", MaximumInFlight=limit)
    orders.set(RedrivePolicy=redrive_policy("dead", 1))
    orders.send("x")
    orders.receive(timeout=0)
    orders.poll()
    assert dead.counts() == (1, 0, 0)
    dead.hide(0, *dead.receive()) if limit else None
    message = orders.connection.execute(
        "select id, message_id from skipmq.message where queue_id = %s", (dead.id,)
    ).fetchone()
    assert message is not None

    assert number(orders.connection, BY_ID, dead.id, *message, 7200) == "changed"
    assert dead.counts() == (0, 1, 0)


def test_reschedule_keeps_to_the_longest_delay_of_the_queue(owner: Connection) -> None:
    queue = Queue(owner, MaximumDelaySeconds=DAY)
    (message,) = queue.send("x", delay=1000)

    assert reschedule(queue, message, DAY + 1) == "beyond-limit"
    (sent,) = queue.send("y")
    assert reschedule(queue, sent, 0) == "missing"


def test_old_receipt_does_not_match_a_message_that_waits_for_a_far_time(owner: Connection) -> None:
    queue = Queue(owner, MaximumDelaySeconds=10 * DAY)
    queue.send("x")
    (old,) = queue.receive()
    returned = "select skipmq.return_message('orders', %s, %s, %s)"
    assert number(owner, returned, *(each[0] for each in receipts([old]))) is True
    assert number(owner, BY_ID, queue.id, old["id"], old["message_id"], DAY) == "changed"

    outcomes = queue.hide(0, old), queue.delete(old)

    assert outcomes == (["missing"], 0)
    assert queue.counts() == (0, 0, 1)
    advance(owner, "1 day 1 s")
    (again,) = queue.receive()
    assert again["approximate_receive_count"] == 1
    assert queue.delete(again) == 1
    assert queue.counts() == (0, 0, 0)
