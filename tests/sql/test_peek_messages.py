import psycopg
import pytest

from support.sql import Queue, number

PEEK = "select array(select body from skipmq.peek_messages(%s, %s, 100))"


def test_peek_skips_expired_messages_and_shows_deprioritised_ones(orders: Queue) -> None:
    orders.send("old")
    orders.connection.execute("update skipmq.message set enqueued_at = 'epoch' where body = 'old'")
    orders.send("deprioritised")
    orders.connection.execute("update skipmq.message set shard = 1 where body = 'deprioritised'")
    orders.send("new")

    assert number(orders.connection, PEEK, orders.id, None) == ["new", "deprioritised"]
    assert number(orders.connection, PEEK, orders.id, "delayed") == []


def test_peek_of_an_old_generation_is_refused(orders: Queue) -> None:
    number(orders.connection, "select skipmq.purge_queue(%s)", orders.id)

    with pytest.raises(psycopg.Error) as caught:
        number(orders.connection, PEEK, orders.id, None)

    assert caught.value.sqlstate == "SQ005"


def test_page_ends_with_the_message_that_fills_its_bytes(orders: Queue) -> None:
    for n in range(5):
        orders.send(str(n) * 100)
    paged = "select array(select left(body, 1) from skipmq.peek_messages(%s, null, 9, null, %s))"

    found = {size: number(orders.connection, paged, orders.id, size) for size in (1, 100, 101, 999)}

    assert found == {1: ["0"], 100: ["0"], 101: ["0", "1"], 999: ["0", "1", "2", "3", "4"]}
