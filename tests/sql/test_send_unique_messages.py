from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import psycopg
import pytest

from support.postgres import Connection
from support.sql import Queue, advance, until_blocked

SEND = (
    "select message_id::text from skipmq.send_unique_messages(%s, %s::uuid[], %s::text[], null,"
    " null, null, null, 'tester', %s::text[], %s) order by place"
)
DAY = 86_400


def unique(connection: Connection) -> Queue:
    return Queue(connection, "unique", DeduplicationSeconds=DAY)


def send(
    queue: Queue, *keys: str | None, ids: list[str] | None = None, commit: str | None = None
) -> list[str]:
    ids = ids or [str(uuid4()) for _ in keys]
    bodies = [f"{key}" for key in keys]
    rows = queue.connection.execute(SEND, (queue.id, ids, bodies, list(keys), commit))
    return [each for (each,) in rows]


def test_known_key_has_the_first_message_for_as_long_as_the_queue_says(owner: Connection) -> None:
    queue = unique(owner)
    first = send(queue, "a")
    advance(owner, f"{DAY - 1} seconds")
    again = send(queue, "a", "b")
    bodies = sorted(queue.bodies())
    advance(owner, f"{DAY + 1} seconds")
    later = send(queue, "a")

    assert again[0] == first[0]
    assert bodies == ["a", "b"]
    assert later != first
    assert queue.bodies() == ["a"]


def test_batch_stores_a_key_once_and_messages_without_one_always(owner: Connection) -> None:
    queue = unique(owner)

    sent = send(queue, "a", None, "a", None)

    assert sent[0] == sent[2]
    assert len(set(sent)) == 3
    assert sorted(queue.bodies()) == ["None", "None", "a"]


def test_send_that_is_repeated_stores_nothing_twice(owner: Connection) -> None:
    queue = unique(owner)
    ids = [str(uuid4()), str(uuid4())]

    sent = [send(queue, "a", None, ids=ids, commit="on") for _ in range(2)]

    assert sent == [ids, ids]
    assert queue.counts() == (2, 0, 0)


def test_message_without_a_key_is_not_repeated_with_a_duplicate(owner: Connection) -> None:
    queue = unique(owner)
    (known,) = send(queue, "a")
    ids = [str(uuid4()), str(uuid4())]

    sent = [send(queue, "a", None, ids=ids, commit="on") for _ in range(2)]

    assert sent == [[known, ids[1]]] * 2
    assert sorted(queue.bodies()) == ["None", "a"]


def test_concurrent_sends_of_a_key_store_one_message(owner: Connection, node: Connection) -> None:
    queue = unique(owner)
    with ThreadPoolExecutor() as pool, owner.transaction():
        first = send(queue, "a")
        second = pool.submit(send, queue.on(node), "a")
        until_blocked(owner)

    assert second.result() == first
    assert queue.counts() == (1, 0, 0)


def test_send_by_name_takes_a_key(owner: Connection) -> None:
    queue = unique(owner)
    call = "select skipmq.send_message('unique', 'x', p_deduplication_id => 'invoice-1')"

    assert owner.execute(call).fetchone() == owner.execute(call).fetchone()
    assert queue.counts() == (1, 0, 0)


def test_queue_without_deduplication_refuses_a_key(orders: Queue) -> None:
    with pytest.raises(psycopg.Error, match="no DeduplicationSeconds") as refusal:
        send(orders, "a")

    assert refusal.value.sqlstate == "SQ008"


def test_fifo_queue_keeps_keys_for_as_long_as_it_says(owner: Connection) -> None:
    owner.execute(
        "select skipmq.create_queue('long.fifo', %s)",
        ('{"DeduplicationSeconds": "86400", "ContentBasedDeduplication": "true"}',),
    )
    call = "select skipmq.send_fifo_message('long.fifo', 'x', 'g')"
    first = owner.execute(call).fetchone()
    advance(owner, "86000 seconds")
    again = owner.execute(call).fetchone()
    advance(owner, "86500 seconds")

    assert again == first
    assert owner.execute(call).fetchone() != first
