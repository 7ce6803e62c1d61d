from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from support.applications import Applications, bodies, delete, hide, receipt, receive, send
from support.postgres import Connection
from support.sql import Queue, number, receipts, until_blocked

each_kind = pytest.mark.parametrize("queue", ["orders", "orders.fifo"])


@each_kind
def test_message_is_shown_again_and_hidden_for_longer(
    owner: Connection, applications: Applications, queue: str
) -> None:
    Queue(owner, queue)
    shop = applications.both("shop", queue)
    send(shop, queue)
    (message,) = receive(shop, queue)

    assert hide(shop, queue, message, 0)
    (again,) = receive(shop, queue, 10, 1)
    assert hide(shop, queue, again, 43_200)

    assert bodies(shop, queue) == []
    assert delete(shop, queue, again)
    assert not hide(shop, queue, again, 0)


def test_message_that_was_received_again_is_left(
    owner: Connection, applications: Applications
) -> None:
    Queue(owner, "orders")
    shop = applications.both("shop", "orders")
    send(shop, "orders")
    (first,) = receive(shop, "orders")
    assert hide(shop, "orders", first, 0)
    (second,) = receive(shop, "orders", 10, 30)

    assert not hide(shop, "orders", first, 0)

    assert receive(shop, "orders") == []
    assert delete(shop, "orders", second)


def test_fifo_message_that_is_visible_or_was_received_again_is_left(
    owner: Connection, applications: Applications
) -> None:
    Queue(owner, "orders.fifo", VisibilityTimeout=0)
    shop = applications.both("shop", "orders.fifo")
    send(shop, "orders.fifo")
    (first,) = receive(shop, "orders.fifo")

    assert not hide(shop, "orders.fifo", first, 30)
    (second,) = receive(shop, "orders.fifo", 10, 30)
    assert not hide(shop, "orders.fifo", first, 0)
    assert hide(shop, "orders.fifo", second, 0)
    assert bodies(shop, "orders.fifo") == ["x"]


@each_kind
@pytest.mark.parametrize(
    ("timeout", "sqlstate"), [(-1, "SQ008"), (43_201, "SQ008"), (None, "SQ011")]
)
def test_timeout_that_sqs_does_not_take_is_refused(
    owner: Connection,
    applications: Applications,
    queue: str,
    timeout: int | None,
    sqlstate: str,
) -> None:
    Queue(owner, queue)
    shop = applications.both("shop", queue)
    send(shop, queue)
    (message,) = receive(shop, queue)

    with pytest.raises(psycopg.Error) as caught:
        hide(shop, queue, message, timeout)

    assert caught.value.sqlstate == sqlstate
    assert bodies(shop, queue) == []


@each_kind
def test_reason_is_kept_with_the_message_of_that_receive(
    owner: Connection, applications: Applications, queue: str
) -> None:
    Queue(owner, queue)
    shop = applications.both("shop", queue)
    send(shop, queue)
    statement = "select skipmq.change_message_visibility(%s, %s, %s, %s, 0, p_reason => %s)"
    (first,) = receive(shop, queue)

    assert number(shop, statement, queue, *receipt(first), "no milk")
    (second,) = receive(shop, queue)
    number(shop, statement, queue, *receipt(first), "no tea")

    reason = {"DataType": "String", "StringValue": "no milk"}
    assert second["attributes"] == {"FailureReason": reason}
    assert number(shop, statement, queue, *receipt(second), None)
    assert receive(shop, queue)[0]["attributes"] == {"FailureReason": reason}


def test_row_of_a_message_is_locked_after_the_limits(owner: Connection, node: Connection) -> None:
    queue = Queue(owner, MaximumInFlight=2)
    queue.send("x")
    (message,) = queue.receive()
    (numbers,) = zip(*receipts([message]), strict=True)
    statement = "select skipmq.change_message_visibility('orders', %s, %s, %s, 0)"
    with ThreadPoolExecutor(1) as threads:
        with owner.transaction():
            assert number(owner, "select skipmq.hold_limits(%s, true)", queue.id) is True
            hidden = threads.submit(number, node, statement, *numbers)
            until_blocked(owner)
            owner.execute("select from skipmq.message where queue_id > 0 for update nowait")

        assert hidden.result() is True
