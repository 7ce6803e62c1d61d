import threading
from hashlib import sha256
from uuid import uuid4

import psycopg
import pytest

from support.fifo import FifoQueue
from support.postgres import Connection, as_node
from support.sql import Queue, advance, number, until_blocked


def test_numbers_grow_in_the_order_of_the_call(fifo: FifoQueue) -> None:
    sent = fifo.put(*[f"{'abc'[n % 3]}:{n}" for n in range(30)])

    numbers = [message.sequence_number for message in sent]
    assert numbers == sorted(set(numbers))


def test_duplicate_gives_the_first_answer_for_five_minutes(fifo: FifoQueue) -> None:
    (first,) = fifo.put("a:1", ids=["x"])
    advance(fifo.connection, "290 s")
    assert fifo.put("b:2", ids=["x"]) == [first]

    advance(fifo.connection, "301 s")
    (later,) = fifo.put("a:3", ids=["x"])

    assert later.sequence_number > first.sequence_number
    assert fifo.take() == ["a:1", "a:3"]


def test_duplicate_does_not_make_the_five_minutes_longer(fifo: FifoQueue) -> None:
    (first,) = fifo.put("a:1", ids=["x"])
    advance(fifo.connection, "200 s")
    fifo.put("a:1", ids=["x"])
    advance(fifo.connection, "301 s")

    assert fifo.put("a:1", ids=["x"]) != [first]


def test_deduplication_outlives_neither_a_purge_nor_the_queue(fifo: FifoQueue) -> None:
    (first,) = fifo.put("a:1", ids=["x"])
    fifo.id = number(fifo.connection, "select queue_id from skipmq.purge_queue(%s)", fifo.id)
    (second,) = fifo.put("a:1", ids=["x"])
    assert second != first
    assert fifo.put("a:1", ids=["x"]) == [second]
    assert fifo.take() == ["a:1"]

    fifo.connection.execute("select skipmq.delete_queue(%s)", (fifo.id,))
    advance(fifo.connection, "61 s")
    again = FifoQueue(fifo.connection)

    assert again.put("a:1", ids=["x"]) not in ([first], [second])
    assert again.take() == ["a:1"]


def test_duplicates_within_a_call_are_one_message(fifo: FifoQueue) -> None:
    one, two, three, four = fifo.put("a:1", "a:2", "a:3", "b:4", ids=["x", "y", "x", "y"])

    assert (one, two) == (three, four)
    assert fifo.take() == ["a:1", "a:2"]


def test_scope_of_the_group_keeps_groups_apart(owner: Connection) -> None:
    fifo = FifoQueue(owner, DeduplicationScope="messageGroup")

    one, two, three = fifo.put("a:1", "b:1", "a:2", ids=["x", "x", "x"])

    assert one == three != two


def test_same_id_by_two_at_once_is_one_message(fifo: FifoQueue, database: str) -> None:
    answers: list[object] = []
    with psycopg.connect(database) as slow, psycopg.connect(database, autocommit=True) as other:
        first = fifo.on(slow).put("a:1", ids=["x"])
        thread = threading.Thread(
            target=lambda: answers.extend(fifo.on(other).put("b:2", ids=["x"]))
        )
        thread.start()
        until_blocked(fifo.connection)
        slow.commit()
        thread.join(timeout=30)

    assert answers == first
    assert fifo.take() == ["a:1"]


def test_senders_of_a_group_take_turns_so_that_commits_are_in_order(
    fifo: FifoQueue, database: str
) -> None:
    with psycopg.connect(database) as slow, psycopg.connect(database, autocommit=True) as other:
        fifo.on(slow).put("a:first")
        thread = threading.Thread(target=lambda: fifo.on(other).put("a:second"))
        thread.start()
        until_blocked(fifo.connection)
        assert fifo.take() == []
        slow.commit()
        thread.join(timeout=30)

    assert fifo.take() == ["a:first", "a:second"]


def test_senders_of_other_groups_do_not_wait(fifo: FifoQueue, database: str) -> None:
    with psycopg.connect(database) as slow:
        fifo.on(slow).put("a:1")
        fifo.put("b:1")

        assert fifo.take() == ["b:1"]


def test_sender_does_not_wait_for_a_receiver_of_its_group(fifo: FifoQueue, database: str) -> None:
    fifo.put("a:1")
    with psycopg.connect(database) as receiver:
        assert fifo.on(receiver).take() == ["a:1"]

        fifo.put("a:2")

    advance(fifo.connection, "31 s")
    assert fifo.take() == ["a:1", "a:2"]


def test_opposite_orders_of_groups_and_ids_do_not_deadlock(fifo: FifoQueue, database: str) -> None:
    def send(groups: str, start: int) -> None:
        with psycopg.connect(database, autocommit=True) as connection:
            twin = fifo.on(connection)
            for n in range(start, start + 50):
                ids = [f"{n % 50}-{group}" for group in groups]
                twin.put(*[f"{group}:{n}" for group in groups], ids=ids)

    threads = [
        threading.Thread(target=send, args=("abcdefgh", 0)),
        threading.Thread(target=send, args=("hgfedcba", 50)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)

    assert fifo.counts() == (8 * 50, 0, 0)


def test_node_may_send(fifo: FifoQueue, database: str) -> None:
    with psycopg.connect(as_node(database), autocommit=True) as connection:
        fifo.on(connection).put("a:1")

    assert fifo.take() == ["a:1"]


def test_send_to_a_standard_queue_or_an_old_generation_is_refused(fifo: FifoQueue) -> None:
    old = fifo.id
    fifo.id = Queue(fifo.connection, "plain").id
    with pytest.raises(psycopg.Error) as caught:
        fifo.put("a:1")
    assert caught.value.sqlstate == "SQ007"

    number(fifo.connection, "select skipmq.purge_queue(%s)", old)
    fifo.id = old
    with pytest.raises(psycopg.Error) as caught:
        fifo.put("a:1")
    assert caught.value.sqlstate == "SQ005"


def test_send_that_sees_a_group_of_the_past_makes_its_row_anew(
    fifo: FifoQueue, database: str
) -> None:
    fifo.put("a:1")
    received = fifo.receive()
    with psycopg.connect(database) as past:
        past.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        past.execute("select from skipmq.queue")
        fifo.delete(*received)
        fifo.on(past).put("a:2", "b:1")

    assert sorted(fifo.take()) == ["a:2", "b:1"]


def test_send_by_sql_takes_missing_deduplication_ids_from_the_bodies(owner: Connection) -> None:
    fifo = FifoQueue(owner, ContentBasedDeduplication="true")
    send = (
        "select message_id from skipmq.send_fifo_messages(%s, array[%s, %s]::uuid[],"
        " array['same', 'other'], null, array['a', 'a'], array[null, 'mine'], null)"
    )

    ids = [owner.execute(send, (fifo.id, uuid4(), uuid4())).fetchall() for _ in range(2)]

    assert ids[0] == ids[1]
    assert [row["deduplication_id"] for row in fifo.receive()] == [
        sha256(b"same").hexdigest(),
        "mine",
    ]


def test_send_by_sql_of_a_message_that_sqs_refuses_is_refused(fifo: FifoQueue) -> None:
    with pytest.raises(psycopg.Error) as caught:
        fifo.put("a:1", "a:")

    assert caught.value.sqlstate == "SQ011"
    assert fifo.take() == []
