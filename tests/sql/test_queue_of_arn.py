import pytest

from support.postgres import Connection
from support.sql import Queue, number


def test_queue_of_an_arn_is_its_generation(owner: Connection) -> None:
    queue = Queue(owner)

    found = number(owner, "select skipmq.queue_of_arn('arn:aws:sqs:us-east-1:000000000000:orders')")

    assert found == queue.id


@pytest.mark.parametrize("arn", ["", "orders", "arn:aws:sqs:us-east-1:000000000000:orders:x", None])
def test_queue_of_nonsense_is_none(owner: Connection, arn: str | None) -> None:
    Queue(owner)

    assert number(owner, "select skipmq.queue_of_arn(%s)", arn) is None
