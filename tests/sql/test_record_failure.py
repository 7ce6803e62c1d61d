from typing import Any

import pytest

from support.fifo import FifoQueue
from support.sql import Queue, number

RECORD = "select skipmq.record_failure(%s, %s, %s, %s, 'KeyError')"
REASON = (
    "select attributes::json -> 'FailureReason' ->> 'StringValue' from skipmq.message where id = %s"
)


@pytest.fixture(params=["standard", "fifo"])
def queue(request: pytest.FixtureRequest, orders: Queue, fifo: FifoQueue) -> Queue:
    """Give a queue of each type with a message."""
    if request.param == "fifo":
        fifo.put("g:a")
        return fifo
    orders.send("a")
    return orders


def received(queue: Any) -> tuple[int, int, Any]:
    queue.receive()
    row = queue.connection.execute(
        "select id, receive_count, message_id from skipmq.message where queue_id = %s", (queue.id,)
    ).fetchone()
    return int(row[0]), int(row[1]), row[2]


def test_reason_is_kept_with_the_message(queue: Any) -> None:
    message, receive, uuid = received(queue)

    assert number(queue.connection, RECORD, queue.id, message, receive, uuid) is True

    assert number(queue.connection, REASON, message) == "KeyError"


def test_reason_of_an_earlier_receive_or_of_another_queue_is_refused(queue: Any) -> None:
    message, receive, uuid = received(queue)

    assert number(queue.connection, RECORD, queue.id, message, receive - 1, uuid) is False
    assert number(queue.connection, RECORD, queue.id + 1, message, receive, uuid) is False

    assert number(queue.connection, REASON, message) is None
