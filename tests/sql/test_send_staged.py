import psycopg
import pytest

from support.applications import Applications
from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import Queue, number
from support.staging import FIRST, SECOND, send, stage, staged


def bodies(queue: Queue) -> list[str]:
    rows = queue.connection.execute(
        "select body from skipmq.message where queue_id = %s order by id", (queue.id,)
    ).fetchall()
    return [body for (body,) in rows]


def test_batch_is_sent_in_the_order_of_places_and_deleted(orders: Queue, node: Connection) -> None:
    stage(node, "c", "d", part=SECOND, first=3)
    stage(node, "a", "b", part=FIRST)

    sent = [send(node, 0, 4, SECOND, FIRST, limit=3) for _ in range(3)]

    assert sent == [3, 1, 0]
    assert bodies(orders) == ["a", "b", "c", "d"]
    assert staged(orders.connection) == 0


def test_batch_that_was_sent_is_not_sent_again(orders: Queue, owner: Connection) -> None:
    stage(owner, "a")
    assert [send(owner, 5, 1), send(owner, 5, 1)] == [1, 0]

    stage(owner, "a again", part=SECOND)
    repeated = send(owner, 5, 1, SECOND)
    stage(owner, "older", part=SECOND)
    older = send(owner, 4, 1, SECOND)
    stage(owner, "b", part=SECOND)
    following = send(owner, 6, 1, SECOND)

    assert (repeated, older, following) == (0, 0, 1)
    assert bodies(orders) == ["a", "b"]


def test_interrupted_batch_continues_with_its_own_parts(orders: Queue, owner: Connection) -> None:
    stage(owner, "a", "b", "c")
    assert send(owner, 0, 3, limit=1) == 1

    # The same rows in another order, as a query that was restarted may write them.
    stage(owner, "c", "a", "b", part=SECOND)
    sent = [send(owner, 0, 3, SECOND) for _ in range(2)]

    assert sent == [2, 0]
    assert bodies(orders) == ["a", "b", "c"]
    assert staged(owner) == 0


def test_next_batch_waits_for_the_end_of_the_last(orders: Queue, owner: Connection) -> None:
    assert orders.id
    stage(owner, "a", "b")
    assert send(owner, 0, 2, limit=1) == 1
    stage(owner, "c", part=SECOND)

    with pytest.raises(psycopg.Error, match="batch 0 of stream s is unfinished") as caught:
        send(owner, 1, 1, SECOND)

    assert caught.value.sqlstate == "55000"


def test_attempts_that_are_not_in_the_batch_are_not_sent(orders: Queue, owner: Connection) -> None:
    stage(owner, "half of an attempt")
    stage(owner, "a", "b", part=SECOND)

    sent = [send(owner, 0, 2, SECOND) for _ in range(2)]

    assert sent == [2, 0]
    assert bodies(orders) == ["a", "b"]
    assert staged(owner) == 1


def test_batch_that_lacks_messages_is_refused_whole(orders: Queue, owner: Connection) -> None:
    stage(owner, "a")

    with pytest.raises(psycopg.Error, match="batch 0 of stream s has 1 staged messages, and not 2"):
        send(owner, 0, 2)

    assert bodies(orders) == []


def test_nothing_is_sent_above_the_depth(orders: Queue, owner: Connection) -> None:
    orders.send("x", "y")
    stage(owner, "a", "b", "c")

    sent = [send(owner, 0, 3, depth=4), send(owner, 0, 3, depth=4)]
    orders.delete(*orders.receive(1))
    more = [send(owner, 0, 3, depth=4), send(owner, 0, 3, depth=4)]

    assert (sent, more) == ([2, None], [1, 0])


def test_batch_without_a_number_leaves_nothing(orders: Queue, owner: Connection) -> None:
    stage(owner, "a")

    sent = [send(owner, None, 1), send(owner, None, 1)]

    assert (sent, bodies(orders), staged(owner)) == ([1, 0], ["a"], 0)
    assert number(owner, "select count(*) from skipmq.staged_batch") == 0


def test_rollback_of_a_batch_sends_nothing_and_keeps_it(orders: Queue, owner: Connection) -> None:
    stage(owner, "a", "b")
    with owner.transaction(force_rollback=True):
        assert [send(owner, 0, 2) for _ in range(2)] == [2, 0]
    assert (bodies(orders), staged(owner)) == ([], 2)

    assert send(owner, 0, 2) == 2


def test_fifo_messages_have_their_groups_ids_and_order(fifo: FifoQueue, owner: Connection) -> None:
    ids = ["d", "d", None]
    stage(owner, "1", "2", "3", queue=fifo.name, group_ids=["g"] * 3, deduplication_ids=ids)

    assert send(owner, 0, 3, queue=fifo.name) == 3

    rows = owner.execute(
        "select body, group_id from skipmq.message where queue_id = %s order by sequence_number",
        (fifo.id,),
    ).fetchall()
    assert rows == [("1", "g"), ("3", "g")]


def test_delays_attributes_and_sender_are_kept(
    orders: Queue, applications: Applications, owner: Connection
) -> None:
    red = '{"colour": {"DataType": "String", "StringValue": "red"}}'
    sender = applications.sender("sender", orders.name)
    stage(sender, "a", delays=[60], attributes=[red], group_ids=["t"], trace_headers=["h"])

    assert send(sender, 0, 1) == 1

    (row,) = owner.execute(
        "select sender, group_id, trace_header, attributes::jsonb -> 'colour' ->> 'StringValue',"
        " visible_at > sent_at + interval '59 seconds' from skipmq.message where queue_id = %s",
        (orders.id,),
    ).fetchall()
    assert row == ("sender", "t", "h", "red", True)


def test_queue_that_was_purged_meanwhile_gets_the_messages(
    orders: Queue, owner: Connection
) -> None:
    stage(owner, "a")
    owner.execute("select skipmq.purge_queue(%s)", (orders.id,))

    assert send(owner, 0, 1) == 1
    assert number(owner, "select count(*) from skipmq.receive_message('orders')") == 1


def test_application_needs_the_right_to_send(
    orders: Queue, owner: Connection, applications: Applications
) -> None:
    Queue(owner, "mails")
    sender = applications.sender("sender", orders.name)

    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="may not send to"):
        send(sender, 0, 0, queue="mails")
