from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import uuid4

import psycopg
import pytest

from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import ENDS, Queue, advance, effects, number

SEND = (
    "select place, message_id::text, sequence_number from skipmq.send_to_fifo_queues"
    "(%s::bigint[], %s::uuid[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[],"
    " %s::text[], 'on', %s::int[]) order by place"
)
PLAIN = (
    "select message_id::text from skipmq.send_fifo_messages"
    "(%s, %s::uuid[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s, 'on', '{1}')"
)
GROUPS = "select queue_id, group_no from skipmq.message_group where queue_id > 0 order by 1, 2"
KNOWN = "select queue_id, key, message_id from skipmq.deduplication order by 1, 2"
STORED = "select count(*) from skipmq.message where queue_id > 0"


class Sent(NamedTuple):
    queue: Queue
    message_id: str
    body: str
    attributes: str | None
    group: str
    deduplication_id: str
    trace: str | None = None
    sender: str | None = "tester"


def one(queue: Queue, body: str, group: str = "g", key: str | None = None, **more: Any) -> Sent:
    return Sent(queue, str(uuid4()), body, more.pop("attributes", None), group, key or body, **more)


def send(
    messages: Sequence[Sent], requests: Sequence[int] = (), on: Connection | None = None
) -> list[Any]:
    """Send them in one call, each by a request of its own unless some are given."""
    queues, *columns = zip(*messages, strict=True)
    connection = on or queues[0].connection
    numbers = list(requests) or list(range(len(messages)))
    columns = [list(column) for column in columns]
    return connection.execute(SEND, ([q.id for q in queues], *columns, numbers)).fetchall()


@pytest.fixture
def mails(owner: Connection) -> FifoQueue:
    """Give a second queue, whose deduplication ids are those of a group."""
    return FifoQueue(owner, "mails.fifo", DelaySeconds=30, DeduplicationScope="messageGroup")


def test_send_to_fifo_queues_leaves_what_a_send_to_each_would(
    fifo: FifoQueue, mails: FifoQueue
) -> None:
    connection = fifo.connection
    fifo.put("g:waiting", "old:first", ids=["waiting", "known"])
    messages = [
        one(fifo, "a"),
        one(mails, "b", attributes='{"a":{"StringValue":"x","DataType":"String"}}'),
        one(fifo, "c", "h", trace="Root=1", sender=None),
        one(fifo, "a again", "h", "a"),
        one(mails, "d", "h", "b", sender="another"),
        one(fifo, "known", "h"),
        one(fifo, "ä" * 1000),
        one(mails, "e"),
    ]

    def left(answer: list[Any]) -> Any:
        return answer, *[connection.execute(each).fetchall() for each in (GROUPS, KNOWN)]

    def apart() -> Any:
        return left(
            [
                connection.execute(
                    PLAIN, (queue.id, *[[each] for each in values], sender)
                ).fetchall()
                for queue, *values, sender in messages
            ]
        )

    def ranked(effect: dict[str, Any]) -> dict[str, Any]:
        order = sorted(row["sequence_number"] for row in effect["messages"])
        for row in effect["messages"]:
            row["sequence_number"] = order.index(row["sequence_number"])
        return effect

    together = ranked(effects(connection, lambda: left([[(r[1],)] for r in send(messages)])))

    assert together == ranked(effects(connection, apart))
    assert len(together["messages"]) == 2 + 6


def test_numbers_of_a_queue_grow_in_the_order_of_the_call(
    fifo: FifoQueue, mails: FifoQueue
) -> None:
    queues = [fifo, mails, mails, fifo, mails] * 4
    sent = send([one(queue, f"{n}", f"{n % 3}") for n, queue in enumerate(queues)])

    assert [row[0] for row in sent] == list(range(1, 21))
    assert [row[2] for row in sent] == sorted(row[2] for row in sent)


def test_retry_gets_the_answers_of_the_first_send_for_five_minutes(
    fifo: FifoQueue, mails: FifoQueue
) -> None:
    messages = [one(fifo, "a"), one(mails, "b"), one(fifo, "c")]
    first = send(messages)
    fifo.delete(*fifo.receive(1))

    assert send(messages) == first
    assert number(fifo.connection, STORED) == 2
    advance(fifo.connection, "301 s")
    assert {row[2] for row in send(messages)}.isdisjoint({row[2] for row in first})


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_queue_that_is_gone_is_reported_and_the_others_are_served(
    fifo: FifoQueue, mails: FifoQueue, orders: Queue, end: str
) -> None:
    mails.connection.execute(end, ("mails.fifo",))

    messages = [one(mails, "a"), one(fifo, "b"), one(orders, "c"), one(mails, "d", "h")]
    sent = send(messages)

    assert [row[1] for row in sent] == [None, messages[1].message_id, None, None]
    assert number(fifo.connection, STORED) == 1
    assert fifo.take() == ["g:b"]


def test_request_with_a_locked_group_is_not_stored_and_the_others_are(
    database: str, fifo: FifoQueue, mails: FifoQueue
) -> None:
    messages = [
        one(fifo, "a", "locked"), one(fifo, "b", "free"), one(mails, "c", "locked"), one(fifo, "d"),
    ]  # fmt: skip
    with psycopg.connect(database) as other:
        fifo.on(other).put("locked:first")

        assert [row[0] for row in send(messages, [1, 1, 2, 3])] == [3, 4]

        assert number(fifo.connection, STORED) == 2
        other.commit()
    assert [row[0] for row in send(messages, [1, 1, 2, 3])] == [1, 2, 3, 4]
    assert fifo.take() == ["locked:first", "locked:a", "g:d", "free:b"]


def test_sender_does_not_wait_for_a_receiver_of_its_group(
    database: str, fifo: FifoQueue, mails: FifoQueue
) -> None:
    fifo.put("g:a")
    with psycopg.connect(database) as other:
        assert fifo.on(other).take() == ["g:a"]
        fifo.connection.execute("set lock_timeout = '20 s'")

        assert len(send([one(fifo, "b"), one(mails, "c")])) == 2


def test_send_of_which_one_message_fails_stores_none(fifo: FifoQueue, mails: FifoQueue) -> None:
    broken = one(mails, "b")._replace(body=None)  # type: ignore[arg-type]

    with pytest.raises(psycopg.errors.NotNullViolation):
        send([one(fifo, "a"), broken])

    assert number(fifo.connection, STORED) == 0


def test_node_may_send_to_fifo_queues_and_others_may_not(owner: Connection) -> None:
    may = (
        "select array(select r.name from unnest('{node,application,reader}'::text[]) r (name)"
        " where has_function_privilege('skipmq_' || r.name,"
        " (select p.oid from pg_proc p where p.proname = 'send_to_fifo_queues'), 'execute'))"
    )
    assert number(owner, may) == ["node"]
