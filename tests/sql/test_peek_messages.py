import psycopg
import pytest

from support.sql import Queue, number

PEEK = "select array(select body from skipmq.peek_messages(%s, %s, 100))"


def test_peek_passes_over_expired_messages_and_shows_what_is_aside(orders: Queue) -> None:
    orders.send("old")
    orders.connection.execute("update skipmq.message set enqueued_at = 'epoch' where body = 'old'")
    orders.send("aside")
    orders.connection.execute("update skipmq.message set shard = 1 where body = 'aside'")
    orders.send("new")

    assert number(orders.connection, PEEK, orders.id, None) == ["new", "aside"]
    assert number(orders.connection, PEEK, orders.id, "delayed") == []


def test_peek_of_an_old_incarnation_is_refused(orders: Queue) -> None:
    number(orders.connection, "select skipmq.purge_queue(%s)", orders.id)

    with pytest.raises(psycopg.Error) as caught:
        number(orders.connection, PEEK, orders.id, None)

    assert caught.value.sqlstate == "SQ005"
