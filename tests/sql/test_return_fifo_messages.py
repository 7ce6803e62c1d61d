from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import number, receipts

RETURN = "select skipmq.return_fifo_messages(%s, %s::bigint[], %s::int[], %s::uuid[])"


def test_group_can_be_received_from_again_in_order(fifo: FifoQueue) -> None:
    fifo.put("g:a", "g:b", "h:c")
    received = fifo.receive()
    assert fifo.bodies() == []

    assert number(fifo.connection, RETURN, fifo.id, *receipts(received)) == 3

    again = fifo.receive()
    assert sorted(m["body"] for m in again) == ["a", "b", "c"]
    assert [m["body"] for m in again if m["group_id"] == "g"] == ["a", "b"]
    assert {m["approximate_receive_count"] for m in again} == {1}


def test_group_of_a_queue_with_a_delay_does_not_wait_once_more(owner: Connection) -> None:
    fifo = FifoQueue(owner, DelaySeconds="900")
    fifo.put("g:a")
    owner.execute("set skipmq.clock_offset = '901 seconds'")
    (received,) = fifo.receive()

    number(owner, RETURN, fifo.id, *receipts([received]))

    assert fifo.bodies() == ["a"]


def test_rest_of_a_group_stays_locked_behind_what_is_still_in_flight(fifo: FifoQueue) -> None:
    fifo.put("g:a", "g:b")
    _, second = fifo.receive()

    number(fifo.connection, RETURN, fifo.id, *receipts([second]))

    assert fifo.bodies() == []
