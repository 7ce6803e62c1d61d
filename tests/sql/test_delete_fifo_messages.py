from uuid import uuid4

import psycopg
import pytest

from support.fifo import FifoQueue
from support.sql import advance, history, number, redrive_policy


def test_delete_says_what_became_of_each(fifo: FifoQueue) -> None:
    fifo.put("a:1", "b:1", "c:1")
    one, two, three = fifo.receive()
    assert fifo.outcomes(one) == ["deleted"]
    fifo.hide(0, two)

    assert fifo.outcomes(one, two, three) == ["missing", "expired", "deleted"]

    (again,) = fifo.receive()
    assert fifo.outcomes(two) == ["expired"]
    assert fifo.outcomes(again) == ["deleted"]


def test_handle_expires_with_its_timeout(fifo: FifoQueue) -> None:
    fifo.put("a:1")
    received = fifo.receive(timeout=30)
    advance(fifo.connection, "31 s")

    assert fifo.outcomes(*received) == ["expired"]
    assert fifo.take() == ["a:1"]


def test_delete_writes_history_with_the_group(fifo: FifoQueue) -> None:
    fifo.put("a:1", ids=["x"])
    fifo.delete(*fifo.receive())

    columns = "outcome, group_id, deduplication_id, receive_count"
    assert history(fifo.connection, columns) == [("deleted", "a", "x", 1)]


def test_group_goes_on_only_when_nothing_of_it_is_in_flight(fifo: FifoQueue) -> None:
    fifo.put("a:1", "a:2", "a:3", "a:4")
    one, two, three = fifo.receive(3)

    for message in (three, one):
        fifo.delete(message)
        assert fifo.take() == []
    fifo.delete(two)

    assert fifo.take() == ["a:4"]


def test_delete_of_a_purged_generation_is_refused(fifo: FifoQueue) -> None:
    fifo.put("a:1")
    received = fifo.receive()
    number(fifo.connection, "select skipmq.purge_queue(%s)", fifo.id)

    with pytest.raises(psycopg.Error) as caught:
        fifo.outcomes(*received)

    assert caught.value.sqlstate == "SQ005"


def test_receipt_of_a_purged_message_is_no_error_before_the_janitor_comes_nor_after(
    fifo: FifoQueue,
) -> None:
    fifo.put("a:1")
    received = fifo.receive()
    purged = number(fifo.connection, "select queue_id from skipmq.purge_queue(%s)", fifo.id)

    fifo.id = purged

    assert fifo.outcomes(*received) == ["missing"]
    assert number(fifo.connection, "select skipmq.clear_retired()") == 1
    assert fifo.outcomes(*received) == ["missing"]


def test_receipt_of_a_dead_letter_has_expired(fifo: FifoQueue) -> None:
    FifoQueue(fifo.connection, "dead.fifo")
    policy = redrive_policy("dead.fifo")
    source = FifoQueue(fifo.connection, "source.fifo", RedrivePolicy=policy)
    source.put("a:1")
    received = source.receive(timeout=0)
    assert source.receive() == []

    assert source.outcomes(*received) == ["expired"]


def test_receipt_of_a_lost_message_settles_nothing_of_the_one_that_has_its_number_now(
    fifo: FifoQueue,
) -> None:
    fifo.put("a:1")
    (received,) = fifo.receive(timeout=60)
    lost = received | {"message_id": uuid4()}

    assert fifo.hide(0, lost) == ["missing"]
    assert fifo.outcomes(lost, received) == ["missing", "deleted"]
