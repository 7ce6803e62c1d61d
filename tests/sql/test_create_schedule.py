from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from support.postgres import Connection
from support.schedules import create
from support.sql import Queue, number, until_blocked

NEXT = "select next_at from skipmq.schedule"
PLANNED = "update skipmq.schedule set planned = true, next_at = skipmq.clock() + interval '1 day'"


def test_schedule_is_new_once_and_keeps_its_time_until_its_expression_changes(
    orders: Queue,
) -> None:
    assert create(orders.connection) is True
    orders.connection.execute(PLANNED)
    planned = number(orders.connection, NEXT)

    assert create(orders.connection, body="another") is False
    assert number(orders.connection, NEXT) == planned
    assert create(orders.connection, expression="every hour") is False
    assert number(orders.connection, NEXT) < planned
    orders.connection.execute(PLANNED)
    assert create(orders.connection, expression="every hour", ends_at="2999-01-01") is False
    assert number(orders.connection, NEXT) < planned


def test_schedule_that_failures_ended_begins_again_and_one_that_is_over_does_not(
    orders: Queue,
) -> None:
    create(orders.connection)
    orders.connection.execute("update skipmq.schedule set planned = true, next_at = null")

    assert create(orders.connection) is False
    assert number(orders.connection, NEXT) is None
    orders.connection.execute("update skipmq.schedule set failure = 'x', failures = 10")
    assert create(orders.connection) is False
    assert number(orders.connection, "select next_at <= skipmq.clock() from skipmq.schedule")
    assert number(orders.connection, "select planned or failures > 0 from skipmq.schedule") is False


def test_schedule_that_another_session_creates_meanwhile_keeps_its_message(
    orders: Queue, node: Connection
) -> None:
    Queue(orders.connection, "others")
    with ThreadPoolExecutor(1) as threads:
        with orders.connection.transaction():
            create(orders.connection)
            second = threads.submit(create, node, queue="others", body="y")
            until_blocked(orders.connection)
        with pytest.raises(psycopg.Error, match="sends to another queue"):
            second.result()

    assert number(orders.connection, "select body from skipmq.schedule") == "x"


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"queue": "absent"}, "queue absent does not exist"),
        ({"jitter": 901}, "schedule_jitter_check"),
        ({"ends_at": "infinity"}, "schedule_ends_at_check"),
        ({"queue": "strict.fifo"}, "needs a group"),
    ],
)
def test_schedule_that_cannot_be_is_refused(
    orders: Queue, more: dict[str, object], error: str
) -> None:
    Queue(orders.connection, "strict.fifo")

    with pytest.raises(psycopg.Error, match=error):
        create(orders.connection, **more)


def test_schedule_does_not_change_its_queue(orders: Queue) -> None:
    Queue(orders.connection, "other")
    create(orders.connection)

    with pytest.raises(psycopg.Error, match="sends to the queue orders: delete it first"):
        create(orders.connection, queue="other")
