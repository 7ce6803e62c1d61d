import psycopg
import pytest

from support.fifo import FifoQueue
from support.sql import advance


def test_extended_message_keeps_its_group(fifo: FifoQueue) -> None:
    fifo.put("a:1", "a:2")
    received = fifo.receive(1, timeout=10)
    assert fifo.hide(100, *received) == ["changed"]

    advance(fifo.connection, "50 s")
    assert fifo.take() == []
    advance(fifo.connection, "101 s")

    assert fifo.take() == ["a:1", "a:2"]


def test_shortened_message_frees_its_group_sooner(fifo: FifoQueue) -> None:
    fifo.put("a:1", "a:2")
    received = fifo.receive(1, timeout=100)
    assert fifo.hide(10, *received) == ["changed"]

    advance(fifo.connection, "11 s")

    assert fifo.take() == ["a:1", "a:2"]


def test_later_message_shown_again_waits_for_the_earlier(fifo: FifoQueue) -> None:
    fifo.put("a:1", "a:2")
    one, two = fifo.receive()
    fifo.hide(0, two)

    assert fifo.take() == []
    fifo.delete(one)
    assert fifo.take() == ["a:2"]


def test_change_says_what_became_of_each(fifo: FifoQueue) -> None:
    fifo.put("a:1", "b:1", "c:1", "d:1")
    one, two, three, four = fifo.receive()
    fifo.delete(one)
    fifo.hide(0, two)

    four["received_at"] = None
    assert fifo.hide(43200, one, two, three, four) == [
        "missing",
        "not-in-flight",
        "beyond-limit",
        "changed",
    ]


@pytest.mark.parametrize("timeout", [-1, 43_201])
def test_change_by_sql_out_of_range_is_refused(fifo: FifoQueue, timeout: int) -> None:
    fifo.put("a:1")
    received = fifo.receive()

    with pytest.raises(psycopg.Error) as caught:
        fifo.hide(timeout, *received)

    assert caught.value.sqlstate == "SQ008"
