import psycopg
import pytest

from support.fifo import FifoQueue
from support.sql import Queue, number, redrive_policy

FAILURES = (
    "select coalesce(json_agg(json_build_array(kind, source, source_exists, messages)), '[]')"
    " from skipmq.message_failures(%s, %s)"
)
LEAVE = """
update skipmq.message m set attributes = skipmq.note_failure(attributes, f.reason)
from unnest(%s::text[], %s::text[]) f (body, reason) where m.body = f.body"""


def test_messages_are_grouped_by_kind_the_largest_first(orders: Queue) -> None:
    orders.send("a", "b", "c", "d")
    orders.connection.execute(LEAVE, (["a", "b", "c"], ["Timeout 1", "KeyError", "Timeout 2"]))

    found = number(orders.connection, FAILURES, orders.id, 100)

    assert found == [
        ["Timeout #", None, False, 2], ["KeyError", None, False, 1], [None, None, False, 1]
    ]  # fmt: skip


def test_groups_have_the_source_and_whether_it_exists(orders: Queue) -> None:
    dead = Queue(orders.connection, "dead")
    work = Queue(orders.connection, "work", RedrivePolicy=redrive_policy())
    work.send("a")
    work.receive(timeout=0)
    work.receive(timeout=0)
    arn = "arn:aws:sqs:us-east-1:000000000000:work"
    assert number(orders.connection, FAILURES, dead.id, 9) == [[None, arn, True, 1]]

    number(orders.connection, "select skipmq.delete_queue(%s)", work.id)

    assert number(orders.connection, FAILURES, dead.id, 9) == [[None, arn, False, 1]]


def test_first_messages_within_retention_are_grouped(orders: Queue, fifo: FifoQueue) -> None:
    for body in "abc":
        orders.send(body)
    fifo.put("g:1", "g:2", "h:3")
    orders.connection.execute("update skipmq.message set enqueued_at = 'epoch' where body = 'a'")

    assert number(orders.connection, FAILURES, orders.id, 2) == [[None, None, False, 1]]
    assert number(orders.connection, FAILURES, fifo.id, 2) == [[None, None, False, 2]]


def test_retired_generation_is_refused(orders: Queue) -> None:
    with pytest.raises(psycopg.Error) as caught:
        number(orders.connection, FAILURES, orders.id + 100, 1)

    assert caught.value.sqlstate == "SQ005"
