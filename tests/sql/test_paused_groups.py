from support.fifo import FifoQueue
from support.sql import advance, number

PAUSE = "select skipmq.pause_group(%s, %s, skipmq.clock() + %s::interval)"
GROUPS = "select array_agg(group_id || '/' || paused_by) from skipmq.paused_groups(%s)"


def test_group_of_a_fifo_queue_is_left_out_until_a_time(fifo: FifoQueue) -> None:
    fifo.put("a:1", "b:1")
    fifo.connection.execute(PAUSE, (fifo.id, "a", "1 hour"))

    assert fifo.take(timeout=7200) == ["b:1"]
    advance(fifo.connection, "1 hour")
    assert fifo.take() == ["a:1"]
    assert number(fifo.connection, GROUPS, fifo.id) is None
