import pytest

from support.postgres import Connection
from support.sql import Queue, advance

ACT = "select outcome from skipmq.reschedule_messages(%s, array[null::bigint], %s::uuid[], %s)"
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


def test_reschedule_keeps_to_the_longest_delay_of_the_queue(owner: Connection) -> None:
    queue = Queue(owner, MaximumDelaySeconds=DAY)
    (message,) = queue.send("x", delay=1000)

    assert reschedule(queue, message, DAY + 1) == "beyond-limit"
    (sent,) = queue.send("y")
    assert reschedule(queue, sent, 0) == "missing"
