from uuid import uuid4

import psycopg
import pytest

from support.sql import Queue, number

IS_SENT = "select skipmq.is_sent(%s, %s::uuid[], clock_timestamp() - interval '1 minute')"

# As a node sends, which may retry it.
SEND = (
    "select skipmq.send_messages("
    "%s, %s::uuid[], array['a'], array[null]::text[], array[null]::int[],"
    " array[null]::text[], array[null]::text[], p_commit => 'on', p_again => '0')"
)


def test_send_is_found_by_any_of_its_messages(orders: Queue) -> None:
    ids = orders.send("a", "b")

    assert number(orders.connection, IS_SENT, orders.id, [str(uuid4()), ids[1]])
    assert not number(orders.connection, IS_SENT, orders.id, [str(uuid4())])


def test_send_that_is_not_committed_is_waited_for(orders: Queue, database: str) -> None:
    with psycopg.connect(database) as other:
        ids = [str(uuid4())]
        other.execute(SEND, (orders.id, ids))
        orders.connection.execute("set lock_timeout = '100 ms'")

        with pytest.raises(psycopg.errors.LockNotAvailable):
            number(orders.connection, IS_SENT, orders.id, ids)
