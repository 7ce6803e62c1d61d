import psycopg
import pytest

from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import Queue, Redrive, number, redrive_policy

ASK = "select skipmq.is_redrivable(%s, %s::bigint, %s::bool)"


def test_message_that_came_from_a_queue_is_redrivable(owner: Connection) -> None:
    redrive = Redrive(owner, 0)
    redrive.dead.send("direct")
    other = Queue(owner, "other")
    assert number(owner, ASK, redrive.dead.id, None, "false") is False
    assert number(owner, ASK, redrive.dead.id, other.id, "false") is True
    redrive.source.send("failed")
    while redrive.source.receive(timeout=0):
        pass

    assert number(owner, ASK, redrive.dead.id, None, "false") is True
    redrive.dead.receive(10)
    assert number(owner, ASK, redrive.dead.id, other.id, "false") is False


def test_message_that_another_transaction_holds_is_redrivable(
    database: str, owner: Connection
) -> None:
    redrive = Redrive(owner, 1)
    with psycopg.connect(database) as other:
        number(other, "select skipmq.move_batch(%s, %s, 10)", redrive.dead.id, redrive.source.id)
        assert number(owner, ASK, redrive.dead.id, None, "false") is True
    assert number(owner, ASK, redrive.dead.id, None, "false") is False


@pytest.mark.parametrize("first", ["direct", "failed"])
def test_group_is_redrivable_by_its_first_message(owner: Connection, first: str) -> None:
    dead = FifoQueue(owner, "dead.fifo")
    source = FifoQueue(owner, "source.fifo", RedrivePolicy=redrive_policy("dead.fifo"))

    def fail() -> None:
        source.put("g:failed")
        while source.take(timeout=0):
            pass

    if first == "failed":
        fail()
    dead.put("g:direct")
    if first == "direct":
        fail()

    assert number(owner, ASK, dead.id, None, "true") is (first == "failed")
    assert number(owner, ASK, dead.id, source.id, "true") is True
    dead.take()
    assert number(owner, ASK, dead.id, source.id, "true") is False
