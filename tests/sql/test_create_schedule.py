import psycopg
import pytest

from support.schedules import create
from support.sql import Queue, number

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
