from support.fifo import FifoQueue
from support.sql import number

CLEAR = (
    "select skipmq.clear_groups(%(queue)s, array(select group_no from skipmq.message_group"
    " where queue_id = %(queue)s), clock_timestamp(), clock_timestamp() - interval '1 hour', 9, 0)"
)


def test_effort_is_that_of_the_groups_and_of_the_messages_cleared(fifo: FifoQueue) -> None:
    fifo.put("a:old", "a:older", "b:new")
    connection = fifo.connection
    connection.execute(
        "update skipmq.message set enqueued_at = enqueued_at - interval '2 hours'"
        " where group_id = 'a'"
    )

    row = connection.execute(CLEAR, {"queue": fifo.id}).fetchone()

    assert row == (5 + 2 + 5,)
    assert number(connection, "select count(*) from skipmq.message where queue_id > 0") == 1
