from uuid import uuid4

import psycopg
import pytest

from support.sql import Queue, number

IS_SENT = "select skipmq.is_sent(%s, %s::uuid[], clock_timestamp() - interval '1 minute')"


def test_send_is_found_by_any_of_its_messages(orders: Queue) -> None:
    ids = orders.send("a", "b")

    assert number(orders.connection, IS_SENT, orders.id, [str(uuid4()), ids[1]])
    assert not number(orders.connection, IS_SENT, orders.id, [str(uuid4())])


def test_send_that_is_not_committed_is_waited_for(orders: Queue, database: str) -> None:
    with psycopg.connect(database) as other:
        ids = orders.on(other).send("a")
        orders.connection.execute("set lock_timeout = '100 ms'")

        with pytest.raises(psycopg.errors.LockNotAvailable):
            number(orders.connection, IS_SENT, orders.id, ids)
