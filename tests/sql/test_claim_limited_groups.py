from support.fifo import FifoQueue
from support.sql import advance


def test_queue_gives_no_more_than_its_maximum_in_flight(fifo: FifoQueue) -> None:
    fifo.put("a:1", "a:2", "b:1", "c:1")
    fifo.set(MaximumInFlight=3)

    first = fifo.receive(limit=2)
    second = fifo.take()
    (full,) = fifo.poll()
    fifo.delete(*first)

    assert (len(first), second, full["id"]) == (2, ["b:1"], None)
    assert fifo.take() == ["c:1"]
    assert fifo.counts() == (0, 2, 0)


def test_receives_that_get_nothing_have_a_row_each(fifo: FifoQueue) -> None:
    fifo.put("a:1", "b:1")
    fifo.set(MaximumInFlight=1)

    rows = fifo.connection.execute(
        "select place, id is null from skipmq.claim_fifo_messages(%s, '{1,0,2}')", (fifo.id,)
    ).fetchall()

    assert sorted(rows) == [(1, False), (3, True)]


def test_rate_of_a_group_holds_back_that_group_alone_and_keeps_its_order(fifo: FifoQueue) -> None:
    fifo.set(MaximumReceiveRatePerGroup="0.1")
    fifo.set(ReceiveBurst=2)
    fifo.put("a:1", "a:2", "a:3", "b:1")

    first = fifo.receive()
    fifo.delete(*first)
    held_back = fifo.take()
    advance(fifo.connection, "10 seconds")

    assert [f"{row['group_id']}:{row['body']}" for row in first] == ["a:1", "a:2", "b:1"]
    assert held_back == []
    assert fifo.take() == ["a:3"]


def test_rate_of_the_queue(fifo: FifoQueue) -> None:
    fifo.set(MaximumReceiveRate="1")
    fifo.put("a:1", "b:1", "c:1")

    assert [fifo.take(), fifo.take()] == [["a:1"], []]
    advance(fifo.connection, "1 second")
    assert fifo.take() == ["b:1"]


def test_several_queues_in_one_statement_keep_their_limits(fifo: FifoQueue) -> None:
    other = FifoQueue(fifo.connection, "other.fifo")
    for queue in (fifo, other):
        queue.put("a:1", "b:1")
    fifo.set(MaximumInFlight=1)

    rows = fifo.connection.execute(
        "select share from skipmq.receive_from_fifo_queues(%s::bigint[], '{5,5}', '{1,2}',"
        " '{null,null}', 'off') where id is not null order by 1",
        ([fifo.id, other.id],),
    ).fetchall()

    assert rows == [(1,), (2,), (2,)]
