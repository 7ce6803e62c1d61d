import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg

from support.postgres import Connection
from support.sql import Queue, advance, history, until_blocked


def test_delete_of_received_messages_removes_them(orders: Queue) -> None:
    orders.send("a", "b", "c")
    received = orders.receive(limit=2)

    deleted = orders.delete(*received)

    advance(orders.connection, "31 seconds")
    assert deleted == 2
    assert len(orders.bodies()) == 1


def test_delete_again_does_nothing(orders: Queue) -> None:
    orders.send("a")
    received = orders.receive()
    orders.delete(*received)

    assert orders.delete(*received) == 0


def test_delete_after_the_timeout_but_before_another_receive_succeeds(orders: Queue) -> None:
    orders.send("a")
    received = orders.receive()
    advance(orders.connection, "31 seconds")

    assert orders.delete(*received) == 1


def test_delete_with_the_receipt_of_an_earlier_receive_does_nothing(orders: Queue) -> None:
    orders.send("a")
    earlier = orders.receive(timeout=0)
    later = orders.receive()

    assert orders.delete(*earlier) == 0
    assert orders.delete(*later) == 1


def test_delete_on_another_queue_does_nothing(owner: Connection) -> None:
    orders, other = Queue(owner, "orders"), Queue(owner, "other")
    orders.send("a")
    received = orders.receive()

    assert other.delete(*received) == 0
    assert orders.counts() == (0, 1, 0)


def test_delete_leaves_metadata_in_the_history(orders: Queue) -> None:
    orders.send("four")
    received = orders.receive()

    orders.delete(*received)

    columns = (
        "outcome, queue_id, receive_count, body_bytes, sender, body, xid > 0, sent_at < settled_at"
    )
    assert history(orders.connection, columns) == [
        ("deleted", orders.id, 1, 4, "tester", None, True, True)
    ]


def test_delete_with_history_full_keeps_the_body(owner: Connection) -> None:
    queue = Queue(owner, HistoryMode="full")
    queue.send("whole")

    queue.delete(*queue.receive())

    assert history(owner, "body") == [("whole",)]


def test_delete_with_history_off_keeps_nothing(owner: Connection) -> None:
    queue = Queue(owner, HistoryMode="off")
    queue.send("a")

    assert queue.delete(*queue.receive()) == 1
    assert history(owner) == []


def test_delete_of_overlapping_batches_in_opposite_order_does_not_deadlock(
    database: str, orders: Queue
) -> None:
    for _ in range(10):
        orders.send(*(str(n) for n in range(10)))
        received = orders.receive()
        deleted: list[int] = []

        def delete(rows: list[dict[str, object]], deleted: list[int] = deleted) -> None:
            with psycopg.connect(database, autocommit=True) as connection:
                deleted.append(Queue(connection).delete(*rows))

        threads = [
            threading.Thread(target=delete, args=(rows,)) for rows in (received, received[::-1])
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert sum(deleted) == 10


def test_delete_while_visibility_is_being_changed_deletes(database: str, orders: Queue) -> None:
    orders.send("a")
    received = orders.receive()
    with (
        psycopg.connect(database) as other,
        psycopg.connect(database, autocommit=True) as third,
        ThreadPoolExecutor() as pool,
    ):
        assert Queue(other).hide(60, *received) == ["changed"]
        deleted = pool.submit(Queue(third).delete, *received)
        until_blocked(orders.connection)

        other.commit()

        assert deleted.result() == 1


def test_delete_while_the_message_is_being_received_again_does_nothing(
    database: str, orders: Queue
) -> None:
    orders.send("a")
    received = orders.receive(timeout=0)
    with (
        psycopg.connect(database) as other,
        psycopg.connect(database, autocommit=True) as third,
        ThreadPoolExecutor() as pool,
    ):
        again = Queue(other).receive()
        deleted = pool.submit(Queue(third).delete, *received)
        until_blocked(orders.connection)

        other.commit()

        assert deleted.result() == 0
        assert orders.delete(*again) == 1


def test_receipt_of_a_lost_message_does_not_delete_the_one_that_has_its_id_now(
    orders: Queue,
) -> None:
    orders.send("lost")
    (lost,) = orders.receive(timeout=60)
    orders.connection.execute("delete from skipmq.message where id = %s", (lost["id"],))
    orders.connection.execute("select setval('skipmq.message_id_seq', %s, false)", (lost["id"],))
    orders.send("alive")
    advance(orders.connection, "1 s")
    (alive,) = orders.receive(timeout=60)

    stale, hidden, own = orders.delete(lost), orders.hide(0, lost), orders.delete(alive)

    assert alive["id"] == lost["id"]
    assert (stale, hidden, own) == (0, ["missing"], 1)
