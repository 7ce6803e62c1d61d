import json
from typing import Any

import psycopg
import pytest

from support.applications import Applications, bodies, dead_letter, delete, receive, send
from support.postgres import Connection
from support.sql import ENDS, Queue, history, redrive_policy

each_kind = pytest.mark.parametrize("queue", ["orders", "orders.fifo"])
REASON = {"DataType": "String", "StringValue": "ValueError: no such item"}


def dead_of(queue: str) -> str:
    return queue.replace("orders", "dead")


@pytest.fixture
def shop(owner: Connection, applications: Applications, queue: str) -> Connection:
    """Give an application with a queue, which does not see the dead-letter queue."""
    Queue(owner, dead_of(queue))
    Queue(owner, queue, RedrivePolicy=redrive_policy(dead_of(queue), 5), HistoryMode="full")
    connection = applications.both("shop", queue)
    send(connection, queue, "poison")
    return connection


@each_kind
def test_message_goes_to_the_dead_letter_queue_with_the_reason(
    shop: Connection, owner: Connection, queue: str
) -> None:
    (message,) = receive(shop, queue)

    assert dead_letter(shop, queue, message, "ValueError: no such item")

    (dead,) = receive(owner, dead_of(queue))
    assert receive(shop, queue) == []
    assert (dead["body"], dead["attributes"]) == ("poison", {"FailureReason": REASON})
    assert dead["message_id"] == message["message_id"]
    assert dead["dead_letter_source"] == f"arn:aws:sqs:us-east-1:000000000000:{queue}"
    assert (dead["approximate_receive_count"], dead["deliveries"]) == (2, 1)
    assert history(owner, "outcome, body") == [("dead-lettered", "poison")]


@each_kind
def test_attributes_of_the_message_are_kept(
    shop: Connection, owner: Connection, queue: str
) -> None:
    trace = {"DataType": "String", "StringValue": "x"}
    owner.execute(
        "update skipmq.message set attributes = %s where queue_id > 0", (json.dumps({"a": trace}),)
    )
    (message,) = receive(shop, queue)

    assert dead_letter(shop, queue, message, "ValueError: no such item")

    (dead,) = receive(owner, dead_of(queue))
    assert dead["attributes"] == {"a": trace, "FailureReason": REASON}


@each_kind
@pytest.mark.parametrize("reason", [None, ""])
def test_reason_may_be_left_out(
    shop: Connection, owner: Connection, queue: str, reason: str | None
) -> None:
    (message,) = receive(shop, queue)

    assert dead_letter(shop, queue, message, reason)

    assert [row["attributes"] for row in receive(owner, dead_of(queue))] == [None]


@each_kind
def test_reason_is_kept_within_what_an_attribute_may_be(
    shop: Connection, owner: Connection, queue: str
) -> None:
    (message,) = receive(shop, queue)

    assert dead_letter(shop, queue, message, "\x1b[31m" + "x" * 5_000)

    (dead,) = receive(owner, dead_of(queue))
    assert dead["attributes"]["FailureReason"]["StringValue"] == " [31m" + "x" * 995


@each_kind
def test_message_that_was_received_again_or_settled_stays(
    shop: Connection, owner: Connection, queue: str
) -> None:
    (first,) = receive(shop, queue, timeout=0)
    (second,) = receive(shop, queue)

    assert not dead_letter(shop, queue, first)
    assert not dead_letter(shop, queue, {"id": None, "receive_count": 1, "message_id": None})
    assert delete(shop, queue, second)
    assert not dead_letter(shop, queue, second)
    assert receive(owner, dead_of(queue)) == []


@each_kind
def test_move_that_is_rolled_back_did_nothing(
    shop: Connection, owner: Connection, queue: str
) -> None:
    (message,) = receive(shop, queue)

    with shop.transaction(force_rollback=True):
        assert dead_letter(shop, queue, message)

    assert receive(owner, dead_of(queue)) == []
    assert dead_letter(shop, queue, message)


@each_kind
def test_queue_without_a_dead_letter_queue_refuses(
    owner: Connection, applications: Applications, queue: str
) -> None:
    Queue(owner, queue)
    shop = applications.both("shop", queue)
    send(shop, queue)
    (message,) = receive(shop, queue)

    with pytest.raises(psycopg.Error, match="The queue has no dead-letter queue") as caught:
        dead_letter(shop, queue, message)

    assert caught.value.sqlstate == "SQ007"
    assert delete(shop, queue, message)


@each_kind
def test_dead_letter_queue_that_was_purged_takes_it(
    shop: Connection, owner: Connection, queue: str
) -> None:
    (message,) = receive(shop, queue)
    owner.execute(ENDS["purge"], (dead_of(queue),))

    assert dead_letter(shop, queue, message)

    assert bodies(owner, dead_of(queue)) == ["poison"]


@each_kind
def test_message_of_a_queue_that_was_purged_is_gone(
    shop: Connection, owner: Connection, queue: str
) -> None:
    (message,) = receive(shop, queue)
    owner.execute(ENDS["purge"], (queue,))

    assert not dead_letter(shop, queue, message)


@pytest.fixture
def group(owner: Connection, applications: Applications) -> Connection:
    """Give an application whose FIFO queue has three messages of one group."""
    Queue(owner, "dead.fifo")
    Queue(owner, "orders.fifo", RedrivePolicy=redrive_policy("dead.fifo", 5))
    connection = applications.both("shop", "orders.fifo")
    for body in ("first", "second", "third"):
        send(connection, "orders.fifo", body)
    return connection


def test_group_goes_on_after_its_head_is_dead_lettered(group: Connection) -> None:
    first, second = receive(group, "orders.fifo", 2)

    assert dead_letter(group, "orders.fifo", first)
    assert receive(group, "orders.fifo") == []
    assert delete(group, "orders.fifo", second)

    assert bodies(group, "orders.fifo") == ["third"]


def test_fifo_message_that_is_visible_again_stays(group: Connection) -> None:
    (first,) = receive(group, "orders.fifo", 1, 0)

    assert not dead_letter(group, "orders.fifo", first)
    assert bodies(group, "orders.fifo") == ["first", "second", "third"]


def test_group_of_the_dead_letter_queue_that_a_sender_holds_is_to_be_tried_again(
    group: Connection, owner: Connection, database: str
) -> None:
    (message,) = receive(group, "orders.fifo", 1)
    with psycopg.connect(database) as other:
        other.execute("select skipmq.send_fifo_message('dead.fifo', 'x', 'g', '1')")

        with pytest.raises(psycopg.errors.LockNotAvailable, match="try again"):
            dead_letter(group, "orders.fifo", message)

    assert dead_letter(group, "orders.fifo", message)
    rows: list[Any] = bodies(owner, "dead.fifo")
    assert rows == ["x", "first"]
