from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from support.applications import Applications, bodies, delete, receipt, receive, send
from support.http import eventually
from support.postgres import Connection
from support.sql import ENDS, Queue, history, number

each_kind = pytest.mark.parametrize("queue", ["orders", "orders.fifo"])
WAITING = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"


def delete_all(connection: Connection, queue: str, *received: dict[str, Any]) -> list[bool]:
    statement = "select skipmq.delete_received(%s, %s, %s, %s)"
    arrays = map(list, zip(*map(receipt, received), strict=True))
    ((found,),) = connection.execute(statement, (queue, *arrays)).fetchall()
    return list(found)


@pytest.fixture
def shop(owner: Connection, applications: Applications, queue: str) -> Connection:
    Queue(owner, queue, VisibilityTimeout=0)
    shop = applications.both("shop", queue)
    for body in "abcd":
        send(shop, queue, body)
    return shop


@each_kind
def test_answers_are_in_the_order_of_what_was_named(
    shop: Connection, owner: Connection, queue: str
) -> None:
    one, again, three, stays = receive(shop, queue, 10, 60)
    assert delete(shop, queue, one)
    stale = again | {"receive_count": again["receive_count"] - 1}
    other = three | {"message_id": uuid4()}

    named = (three, stale, one, other, again, three | {"receive_count": None})
    assert delete_all(shop, queue, *named) == [True, False, False, False, True, False]

    assert delete_all(shop, queue, three, again) == [False, False]
    assert history(owner) == [("deleted",)] * 3
    assert delete(shop, queue, stays)


@pytest.mark.parametrize("queue", ["orders"])
def test_message_that_is_received_again_meanwhile_stays(
    shop: Connection, owner: Connection, queue: str
) -> None:
    first = receive(shop, queue)
    with ThreadPoolExecutor() as pool:
        with owner.transaction():
            (again,) = receive(owner, queue, 1, 60)
            answer = pool.submit(delete_all, shop, queue, *first)
            eventually(lambda: number(owner, WAITING) == 1, why="the delete waits")

        assert answer.result() == [False, True, True, True]
    assert again["id"] == first[0]["id"]
    assert delete_all(shop, queue, again) == [True]


@each_kind
def test_none_are_deleted_of_none(shop: Connection, queue: str) -> None:
    statement = "select skipmq.delete_received(%s, '{}', '{}', '{}')"

    assert shop.execute(statement, (queue,)).fetchall() == [([],)]

    assert bodies(shop, queue) == ["a", "b", "c", "d"]


@each_kind
@pytest.mark.parametrize(("end", "sqlstate"), [("purge", None), ("delete", "SQ001")])
def test_messages_of_a_queue_that_is_over_are_gone(
    shop: Connection, owner: Connection, queue: str, end: str, sqlstate: str | None
) -> None:
    received = receive(shop, queue, 10, 60)
    owner.execute(ENDS[end], (queue,))

    try:
        assert delete_all(shop, queue, *received) == [False] * len(received)
        raised = None
    except psycopg.Error as error:
        raised = error.sqlstate
    assert raised == sqlstate
