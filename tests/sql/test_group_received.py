from support.fifo import FifoQueue


def test_messages_behind_one_that_was_released_are_found(fifo: FifoQueue) -> None:
    fifo.put("a:1", "a:2", "a:3", "b:1")
    one, two = fifo.receive(2, timeout=1000)
    fifo.hide(0, one)

    rows = fifo.connection.execute(
        "select r.id, r.visible_at > skipmq.clock() from skipmq.message_group g"
        " cross join lateral skipmq.group_received(g.queue_id, g.group_no, g.first_number) r"
        " where g.queue_id = %s",
        (fifo.id,),
    ).fetchall()

    assert rows == [(one["id"], False), (two["id"], True)]
