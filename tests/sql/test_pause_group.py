import psycopg
import pytest

from support.sql import Queue, number

PAUSE = "select skipmq.pause_group(%s, %s, skipmq.clock() + %s::interval)"
RESUME = "select skipmq.resume_group(%s, %s)"


def test_pause_outlives_a_purge_but_not_the_queue(orders: Queue) -> None:
    orders.connection.execute(PAUSE, (orders.id, "a", None))
    purge = "select queue_id from skipmq.purge_queue(%s, '0')"
    orders.id = number(orders.connection, purge, orders.id)
    orders.send("a", group="a")

    assert orders.bodies() == []
    orders.connection.execute("select skipmq.delete_queue(%s)", (orders.id,))
    assert number(orders.connection, "select count(*) from skipmq.paused_group") == 0


def test_infinity_is_until_the_group_is_resumed(orders: Queue) -> None:
    number(orders.connection, "select skipmq.pause_group(%s, 'a', 'infinity')", orders.id)
    orders.send("a", group="a")

    assert orders.poll()[0]["next_visible_in"] is None
    assert number(orders.connection, "select until from skipmq.paused_group") is None


@pytest.mark.parametrize(("group", "until"), [("", None), ("g" * 129, None), ("a", "-1 second")])
def test_group_or_time_that_cannot_be_is_refused(
    orders: Queue, group: str, until: str | None
) -> None:
    with pytest.raises(psycopg.Error) as caught:
        orders.connection.execute(PAUSE, (orders.id, group, until))

    assert caught.value.sqlstate == "SQ008"


def test_retired_generation_is_refused(orders: Queue) -> None:
    for statement in (PAUSE, RESUME):
        parameters = (orders.id + 1, "a", None)[: statement.count("%s")]
        with pytest.raises(psycopg.Error) as caught:
            orders.connection.execute(statement, parameters)
        assert caught.value.sqlstate == "SQ005"
