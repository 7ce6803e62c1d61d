from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple
from uuid import uuid4

import psycopg
import pytest

from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import ENDS, Queue, advance, effects, number, until_blocked

SEND = (
    "select skipmq.send_to_queues(%s::bigint[], %s::uuid[], %s::text[], %s::text[], %s::int[],"
    " %s::text[], %s::text[], %s::text[], 'on', %s::interval)"
)
PLAIN = (
    "select skipmq.send_messages(%s, %s::uuid[], %s::text[], %s::text[], %s::int[],"
    " %s::text[], %s::text[], %s, 'on', '0')"
)
STORED = "select count(*) from skipmq.message where queue_id > 0"


class Sent(NamedTuple):
    queue: Queue
    message_id: str
    body: str
    attributes: str | None = None
    delay: int | None = None
    group: str | None = None
    trace: str | None = None
    sender: str | None = "tester"


def one(queue: Queue, body: str, **fields: Any) -> Sent:
    return Sent(queue, str(uuid4()), body, **fields)


def send(messages: Sequence[Sent], again: str | None = "0", on: Connection | None = None) -> Any:
    """Send them in one call; return the ids of the queues that are gone."""
    queues, *columns = zip(*messages, strict=True)
    return number(
        on or queues[0].connection,
        SEND,
        [queue.id for queue in queues],
        *map(list, columns),
        again,
    )


def send_apart(messages: Sequence[Sent]) -> Any:
    """Send each with a call of the plain function."""
    for queue, message_id, *values, sender in messages:
        arrays = [[value] for value in (message_id, *values)]
        queue.connection.execute(PLAIN, (queue.id, *arrays, sender))
    return []


@pytest.fixture
def mails(owner: Connection) -> Queue:
    """Give a second queue, with a delay."""
    return Queue(owner, "mails", DelaySeconds=30)


def test_send_to_queues_leaves_what_a_send_to_each_would(orders: Queue, mails: Queue) -> None:
    fair = Queue(orders.connection, "fair")
    fair.send("first", group="quiet")
    orders.connection.execute(
        "insert into skipmq.noisy_tenant (queue_id, group_id, until)"
        " values (%s, 'loud', now() + interval '1 hour'),"
        " (%s, 'was loud', now() - interval '1 hour'), (%s, 'loud', now() + interval '1 hour')",
        (fair.id, fair.id, mails.id),
    )
    attributes = '{"a":{"StringValue":"x","DataType":"String"}}'
    messages = [
        one(orders, "plain"),
        one(mails, "the queue's delay", sender="another"),
        one(orders, "own delay", delay=600, trace="Root=1", sender=None),
        one(mails, "no delay", delay=0, attributes=attributes),
        one(fair, "of a noisy tenant", group="loud"),
        one(fair, "of one that was noisy", group="was loud"),
        one(fair, "of no tenant"),
        one(mails, "a first group", group="loud", trace="Root=2", attributes=attributes),
        one(orders, "ä" * 1000),
    ]

    together = effects(orders.connection, lambda: send(messages))

    assert together == effects(orders.connection, lambda: send_apart(messages))
    shards = {row["body"]: row["shard"] for row in together["messages"]}
    assert (shards["of a noisy tenant"], shards["of one that was noisy"]) == (1, 0)
    assert dict(together["tenants"]) == {orders.id: False, mails.id: True, fair.id: True}


def test_null_arrays_stand_for_nulls(orders: Queue, mails: Queue) -> None:
    messages = [one(orders, "a", sender=None), one(mails, "b", sender=None)]

    def call() -> Any:
        queues, ids = [orders.id, mails.id], [m.message_id for m in messages]
        return number(
            orders.connection, SEND, queues, ids, ["a", "b"], None, None, None, None, None, "0"
        )

    assert effects(orders.connection, call) == effects(
        orders.connection, lambda: send_apart(messages)
    )


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_queue_that_is_gone_is_reported_and_the_others_are_served(
    orders: Queue, mails: Queue, end: str
) -> None:
    mails.connection.execute(end, ("mails",))

    gone = send([one(mails, "a"), one(orders, "b"), one(mails, "c", group="g")])

    assert gone == [mails.id]
    assert number(orders.connection, STORED) == 1
    assert orders.bodies() == ["b"]


def test_send_to_queues_that_are_all_gone_stores_nothing(orders: Queue) -> None:
    orders.id = 998
    other = orders.on(orders.connection)
    other.id = 999

    assert sorted(send([one(orders, "a"), one(other, "b", group="g")])) == [998, 999]
    assert number(orders.connection, STORED) == 0


def test_fifo_queue_is_reported_and_left_as_it_is(orders: Queue, fifo: FifoQueue) -> None:
    gone = send([one(fifo, "a", group="g"), one(orders, "b")])

    assert gone == [fifo.id]
    assert number(orders.connection, STORED) == 1
    assert not number(
        orders.connection, "select tenants from skipmq.queue where queue_id = %s", fifo.id
    )


@pytest.mark.parametrize("commit", ["on", "off", "local"])
def test_send_sets_synchronous_commit_of_the_transaction_only(orders: Queue, commit: str) -> None:
    connection = orders.connection
    before = number(connection, "show synchronous_commit")

    with connection.transaction():
        connection.execute(SEND.replace("'on'", f"'{commit}'"), (*([[]] * 8), None))
        within = number(connection, "show synchronous_commit")

    assert within == commit
    assert number(connection, "show synchronous_commit") == before


def test_send_of_which_one_message_fails_stores_none(orders: Queue, mails: Queue) -> None:
    broken = one(mails, "b")._replace(body=None)  # type: ignore[arg-type]

    with pytest.raises(psycopg.errors.NotNullViolation):
        send([one(orders, "a"), broken])

    assert number(orders.connection, STORED) == 0


def received_in_part(messages: Sequence[Sent]) -> None:
    """Receive all, and delete those of the first queue."""
    orders, mails = messages[0].queue, messages[1].queue
    advance(orders.connection, "31 seconds")
    orders.delete(*orders.receive(timeout=600))
    assert mails.bodies(timeout=600)


def first_deleted(messages: Sequence[Sent]) -> None:
    """Delete the message whose id is the lock of the send, and leave the others visible."""
    orders = messages[0].queue
    (first,) = [m for m in orders.receive(timeout=0) if str(m["message_id"]) == messages[0][1]]
    orders.delete(first)


def untouched(messages: Sequence[Sent]) -> None:
    assert messages


@pytest.mark.parametrize("since", [untouched, received_in_part, first_deleted])
def test_send_that_was_done_is_not_done_again(
    orders: Queue, mails: Queue, since: Callable[[Sequence[Sent]], None]
) -> None:
    messages = [one(orders, "a"), one(mails, "b"), one(orders, "c"), one(mails, "d")]
    assert send(messages) == []
    since(messages)
    before = number(orders.connection, STORED)

    assert send(messages, "90 seconds") == []

    assert number(orders.connection, STORED) == before
    counted = "select coalesce(sum(change), 0) from skipmq.queue_delta"
    assert number(orders.connection, counted) == before


def test_send_that_was_done_writes_all_the_same_so_that_it_waits_for_standbys(
    orders: Queue, mails: Queue
) -> None:
    messages = [one(orders, "a"), one(mails, "b")]
    send(messages)
    before = number(orders.connection, "select pg_current_wal_insert_lsn()")

    with orders.connection.transaction():
        send(messages, "90 seconds")
        written = number(orders.connection, "select pg_current_wal_insert_lsn() > %s", before)

    assert written


def test_send_that_was_not_done_is_done(orders: Queue, mails: Queue) -> None:
    orders.send("another")

    assert send([one(orders, "a"), one(mails, "b", delay=0)], "90 seconds") == []

    assert sorted(orders.bodies()) == ["a", "another"]
    assert mails.bodies() == ["b"]


def test_retry_reports_the_queues_that_have_gone_since(orders: Queue, mails: Queue) -> None:
    messages = [one(mails, "a"), one(orders, "b")]
    send(messages)
    mails.connection.execute(ENDS["purge"], ("mails",))

    assert send(messages, "90 seconds") == [mails.id]

    assert orders.bodies() == ["b"]


@pytest.mark.parametrize("commits", [True, False])
def test_retry_waits_for_the_first_attempt_and_stores_what_that_did_not(
    database: str, orders: Queue, mails: Queue, commits: bool
) -> None:
    messages = [one(orders, "a"), one(mails, "b", delay=0), one(orders, "c")]
    with (
        psycopg.connect(database) as first,
        psycopg.connect(database, autocommit=True) as second,
        ThreadPoolExecutor() as pool,
    ):
        send(messages, on=first)
        retry = pool.submit(send, messages, "90 seconds", second)
        until_blocked(orders.connection, "send_to_queues")
        if commits:
            first.commit()
        else:
            first.rollback()

        assert retry.result() == []

    assert sorted(orders.bodies()) == ["a", "c"]
    assert mails.bodies() == ["b"]


def test_send_that_is_never_retried_takes_no_lock(orders: Queue, mails: Queue) -> None:
    with orders.connection.transaction():
        send([one(orders, "a"), one(mails, "b")], None)

        locks = "select count(*) from pg_locks where locktype = 'advisory' and pid = %s"
        assert number(orders.connection, locks, orders.connection.info.backend_pid) == 0


def test_first_message_with_a_group_does_not_wait_for_the_queues_row(
    database: str, orders: Queue, mails: Queue
) -> None:
    tenants = "select array(select name from skipmq.queue where tenants order by name)"
    with psycopg.connect(database) as other:
        other.execute("select from skipmq.queue where name = 'orders' for update")
        orders.connection.execute("set lock_timeout = '20 s'")

        assert send([one(orders, "a", group="g"), one(mails, "b", group="g")]) == []

        assert number(orders.connection, tenants) == ["mails"]
    assert orders.bodies() == ["a"]
    send([one(orders, "c", group="g"), one(mails, "d")])
    assert number(orders.connection, tenants) == ["mails", "orders"]


def test_node_may_send_to_queues_and_others_may_not(owner: Connection) -> None:
    may = (
        "select array(select r.name from unnest('{node,application,reader}'::text[]) r (name)"
        " where has_function_privilege('skipmq_' || r.name,"
        " (select p.oid from pg_proc p where p.proname = 'send_to_queues'), 'execute'))"
    )
    assert number(owner, may) == ["node"]
