import psycopg
import pytest

from support.applications import Applications, bodies, delete, receive, send
from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import Queue, redrive_policy

ATTRIBUTES = {"a": {"DataType": "String", "StringValue": "x"}}


def test_standard_message_is_received_with_all_that_is_known_of_it(
    owner: Connection, applications: Applications
) -> None:
    Queue(owner)
    shop = applications.both("shop", "orders")
    row = shop.execute(
        "select skipmq.send_message('orders', 'tea', %s)", (psycopg.types.json.Jsonb(ATTRIBUTES),)
    ).fetchone()

    (message,) = receive(shop, "orders")

    assert row == (message["message_id"],)
    assert (message["body"], message["attributes"]) == ("tea", ATTRIBUTES)
    assert (message["receive_count"], message["approximate_receive_count"]) == (1, 1)
    assert message["deliveries"] == 1
    assert message["sender"] == "shop"
    assert message["sent_at"] <= message["first_received_at"]
    assert {name for name, value in message.items() if value is None} == {
        "group_id",
        "sequence_number",
        "deduplication_id",
        "trace_header",
        "dead_letter_source",
    }
    assert receive(shop, "orders") == []


def test_fifo_messages_come_in_order_and_hold_their_group(
    owner: Connection, applications: Applications
) -> None:
    fifo = FifoQueue(owner)
    shop = applications.both("shop", "orders.fifo")
    sent = fifo.put("a:1", "a:2", "b:1", ids=["i1", "i2", "i3"])

    received = receive(shop, "orders.fifo")

    assert [(m["group_id"], m["body"], m["deduplication_id"]) for m in received] == [
        ("a", "1", "i1"),
        ("a", "2", "i2"),
        ("b", "1", "i3"),
    ]
    assert [m["sequence_number"] for m in received] == [s.sequence_number for s in sent]
    fifo.put("a:3")
    assert receive(shop, "orders.fifo") == []
    for message in received:
        assert delete(shop, "orders.fifo", message)
    assert bodies(shop, "orders.fifo") == ["3"]


@pytest.mark.parametrize("queue", ["orders", "orders.fifo"])
def test_limit_and_timeout_are_those_of_the_nodes(
    owner: Connection, applications: Applications, queue: str
) -> None:
    Queue(owner, queue, VisibilityTimeout=0)
    shop = applications.both("shop", queue)
    send(shop, queue, "1")
    send(shop, queue, "2")

    assert len(receive(shop, queue, None)) == 1
    assert len(receive(shop, queue, 10, 30)) == 2
    assert receive(shop, queue) == []
    for limit, timeout in ((0, None), (11, None), (1, -1), (1, 43_201)):
        with pytest.raises(psycopg.Error) as caught:
            receive(shop, queue, limit, timeout)
        assert caught.value.sqlstate == "SQ008"


@pytest.mark.parametrize("queue", ["orders", "orders.fifo"])
def test_receive_of_a_queue_that_is_not_there_says_so(
    applications: Applications, queue: str
) -> None:
    with pytest.raises(psycopg.Error) as caught:
        receive(applications.both("shop", "*"), queue)

    assert caught.value.sqlstate == "SQ001"


def test_account_and_region_choose_the_queue(owner: Connection, applications: Applications) -> None:
    there = "p_account => '123456789012', p_region => 'eu-west-1'"
    owner.execute(f"select skipmq.create_queue('orders', {there})")
    applications.create("shop")
    applications.grant(
        "shop", send=["orders"], receive=["orders"], account="123456789012", region="eu-west-1"
    )
    shop = applications.connect("shop")

    shop.execute(f"select skipmq.send_message('orders', 'x', {there})")

    row = shop.execute(
        f"select id, body, message_id from skipmq.receive_message('orders', {there})"
    ).fetchone()
    assert row is not None
    assert row[1] == "x"
    assert shop.execute(
        f"select skipmq.delete_message('orders', %s, 1, %s, {there})", (row[0], row[2])
    ).fetchone() == (True,)


def test_message_received_too_often_goes_to_a_queue_that_the_application_may_not_use(
    owner: Connection, applications: Applications
) -> None:
    dead = Queue(owner, "dead")
    Queue(owner, "orders", RedrivePolicy=redrive_policy(), VisibilityTimeout=0)
    shop = applications.both("shop", "orders")
    send(shop, "orders")

    assert bodies(shop, "orders") == ["x"]
    assert bodies(shop, "orders") == []

    assert dead.bodies() == ["x"]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        receive(shop, "dead")
