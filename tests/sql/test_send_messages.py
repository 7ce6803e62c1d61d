from uuid import uuid4

import psycopg
import pytest

from support.postgres import Connection
from support.sql import Queue, advance, number


def test_send_stores_every_column(orders: Queue) -> None:
    message_id = str(uuid4())
    attributes = '{"a":{"StringValue":"x","DataType":"String"}}'

    orders.connection.execute(
        "select skipmq.send_messages(%s, array[%s]::uuid[], array['body'], array[%s], array[0],"
        " array['tenant'], array['Root=1'], 'sender')",
        (orders.id, message_id, attributes),
    )

    (row,) = orders.receive()
    assert str(row["message_id"]) == message_id
    assert (row["body"], row["attributes"], row["group_id"]) == ("body", attributes, "tenant")
    assert (row["trace_header"], row["sender"]) == ("Root=1", "sender")


def test_send_with_delay_is_hidden_until_it_ends(orders: Queue) -> None:
    orders.send("later", delay=20)

    before = orders.bodies()
    advance(orders.connection, "20 seconds")

    assert before == []
    assert orders.bodies() == ["later"]


def test_send_without_delay_takes_the_queues(owner: Connection) -> None:
    queue = Queue(owner, DelaySeconds=20)
    queue.send("later")
    queue.send("now", delay=0)

    before = queue.bodies()
    advance(owner, "20 seconds")

    assert before == ["now"]
    assert queue.bodies() == ["later"]


def test_send_that_fails_stores_none_of_its_messages(orders: Queue) -> None:
    nodes = ", array[null, null], array[0, 0], array[null, null], array[null, null], 'me', 'on')"

    with pytest.raises(psycopg.errors.NotNullViolation):
        orders.connection.execute(
            "select skipmq.send_messages(%s, array[%s, %s]::uuid[], array['a', null]" + nodes,
            (orders.id, str(uuid4()), str(uuid4())),
        )

    assert orders.counts() == (0, 0, 0)


def test_send_by_sql_of_one_message_that_sqs_refuses_stores_none(orders: Queue) -> None:
    with pytest.raises(psycopg.Error) as caught:
        orders.send("a", "")

    assert caught.value.sqlstate == "SQ011"
    assert orders.counts() == (0, 0, 0)


def test_what_a_node_sends_is_not_checked_again(orders: Queue) -> None:
    orders.connection.execute(
        "select skipmq.send_messages(%s, array[%s]::uuid[], array[''], array['{}'], null,"
        " array[' '], array[''], 'node', 'on')",
        (orders.id, str(uuid4())),
    )

    (row,) = orders.receive()
    assert (row["body"], row["attributes"], row["group_id"]) == ("", "{}", " ")


def test_send_to_no_queue_raises_moved(orders: Queue) -> None:
    orders.id = 999

    with pytest.raises(psycopg.Error) as caught:
        orders.send("a")

    assert caught.value.sqlstate == "SQ005"


@pytest.mark.parametrize("commit", ["on", "off", "local"])
def test_send_sets_synchronous_commit_of_the_transaction_only(orders: Queue, commit: str) -> None:
    connection = orders.connection
    before = number(connection, "show synchronous_commit")

    with connection.transaction():
        connection.execute(
            "select skipmq.send_messages(%s, '{}', '{}', '{}', '{}', '{}', '{}', null, %s)",
            (orders.id, commit),
        )
        within = number(connection, "show synchronous_commit")

    assert within == commit
    assert number(connection, "show synchronous_commit") == before


def test_send_in_a_transaction_that_rolls_back_sends_nothing(orders: Queue) -> None:
    with orders.connection.transaction(force_rollback=True):
        orders.send("never")

    assert orders.counts() == (0, 0, 0)


def test_negative_delay_is_refused(orders: Queue) -> None:
    with pytest.raises(psycopg.Error, match="DelaySeconds") as caught:
        orders.send("early", delay=-1)

    assert caught.value.sqlstate == "SQ008"


AGAIN = (
    "select skipmq.send_messages(%s, %s::uuid[], array['a', 'b'], array[null, null]::text[],"
    " array[%s::int, null], array[%s, null], array[null, null]::text[], 'tester', null, %s)"
)


def send_again(queue: Queue, ids: list[str], within: str | None = "1 minute") -> None:
    queue.connection.execute(AGAIN, (queue.id, ids, None, None, within))


@pytest.mark.parametrize("state", ["visible", "in flight", "delayed", "one settled"])
def test_send_that_was_done_is_not_done_again(orders: Queue, state: str) -> None:
    ids = [str(uuid4()), str(uuid4())]
    delay = 30 if state == "delayed" else None
    orders.connection.execute(AGAIN, (orders.id, ids, delay, None, None))
    if state == "in flight":
        assert len(orders.receive(timeout=600)) == 2
    if state == "one settled":
        orders.delete(orders.receive(1, timeout=600)[0])
    before = number(orders.connection, "select count(*) from skipmq.message where queue_id > 0")

    send_again(orders, ids)

    after = number(orders.connection, "select count(*) from skipmq.message where queue_id > 0")
    assert after == before
    assert sum(orders.counts()) == before


def test_send_that_was_not_done_is_done(orders: Queue) -> None:
    ids = [str(uuid4()), str(uuid4())]
    orders.send("another")

    send_again(orders, ids)

    assert sorted(orders.bodies()) == ["a", "another", "b"]


def test_send_that_was_done_writes_all_the_same_so_that_it_waits_for_standbys(
    orders: Queue,
) -> None:
    ids = [str(uuid4()), str(uuid4())]
    send_again(orders, ids, None)
    before = number(orders.connection, "select pg_current_wal_insert_lsn()")

    with orders.connection.transaction():
        send_again(orders, ids)
        written = number(orders.connection, "select pg_current_wal_insert_lsn() > %s", before)

    assert written


def test_send_again_waits_for_the_one_before(orders: Queue, database: str) -> None:
    ids = [str(uuid4()), str(uuid4())]
    with psycopg.connect(database) as other, psycopg.connect(database, autocommit=True) as again:
        send_again(orders.on(other), ids, "0")
        again.execute("set lock_timeout = '100 ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            send_again(orders.on(again), ids)

        other.rollback()
        send_again(orders.on(again), ids)

    assert sorted(orders.bodies()) == ["a", "b"]
