from uuid import uuid4

import psycopg
import pytest

from support.applications import Applications, bodies, delete, receive, send
from support.postgres import Connection
from support.sql import ENDS, Queue, history

each_kind = pytest.mark.parametrize("queue", ["orders", "orders.fifo"])


@each_kind
def test_message_is_deleted_once_and_settled(
    owner: Connection, applications: Applications, queue: str
) -> None:
    Queue(owner, queue)
    shop = applications.both("shop", queue)
    send(shop, queue)
    (message,) = receive(shop, queue)

    assert delete(shop, queue, message)
    assert not delete(shop, queue, message)

    assert history(owner) == [("deleted",)]


@each_kind
def test_message_that_was_received_again_stays(
    owner: Connection, applications: Applications, queue: str
) -> None:
    Queue(owner, queue, VisibilityTimeout=0)
    shop = applications.both("shop", queue)
    send(shop, queue)
    (first,) = receive(shop, queue)
    (second,) = receive(shop, queue, 10, 30)

    assert not delete(shop, queue, first)
    assert delete(shop, queue, second)


@each_kind
def test_delete_that_is_rolled_back_did_nothing(
    owner: Connection, applications: Applications, queue: str
) -> None:
    Queue(owner, queue)
    shop = applications.both("shop", queue)
    send(shop, queue)
    with shop.transaction(force_rollback=True):
        (message,) = receive(shop, queue)
        assert delete(shop, queue, message)

    assert bodies(shop, queue) == ["x"]


@each_kind
@pytest.mark.parametrize(("end", "sqlstate"), [("purge", None), ("delete", "SQ001")])
def test_message_of_a_queue_that_is_over_is_gone(
    owner: Connection, applications: Applications, queue: str, end: str, sqlstate: str | None
) -> None:
    Queue(owner, queue)
    shop = applications.both("shop", queue)
    send(shop, queue)
    (message,) = receive(shop, queue)
    owner.execute(ENDS[end], (queue,))

    try:
        assert not delete(shop, queue, message)
        raised = None
    except psycopg.Error as error:
        raised = error.sqlstate
    assert raised == sqlstate


@each_kind
def test_nulls_delete_nothing(owner: Connection, applications: Applications, queue: str) -> None:
    Queue(owner, queue)
    shop = applications.both("shop", queue)
    send(shop, queue)
    (message,) = receive(shop, queue)

    for name in ("id", "receive_count", "message_id"):
        assert not delete(shop, queue, message | {name: None})
    assert not delete(shop, queue, message | {"message_id": uuid4()})
    assert delete(shop, queue, message)
