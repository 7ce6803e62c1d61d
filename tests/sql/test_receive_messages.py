import threading

import psycopg
import pytest

from support.postgres import Connection, as_node
from support.sql import Queue, advance, history, number, receipts


def test_receive_gives_messages_in_order_of_visibility(orders: Queue) -> None:
    orders.send("a", "b")
    orders.send("c")

    assert sorted(orders.bodies(limit=2)) == ["a", "b"]
    assert orders.bodies() == ["c"]


def test_receive_hides_for_the_queues_timeout_and_counts(orders: Queue) -> None:
    orders.send("a")
    first = orders.receive()

    hidden = orders.receive()
    advance(orders.connection, "30 seconds")
    second = orders.receive()

    assert hidden == []
    assert [first[0]["approximate_receive_count"], second[0]["approximate_receive_count"]] == [1, 2]
    assert first[0]["first_received_at"] == second[0]["first_received_at"]
    assert first[0]["sent_at"] == second[0]["sent_at"]


def test_paused_queue_gives_no_messages_and_changes_none(orders: Queue) -> None:
    orders.send("a", "kept")
    held = orders.receive(limit=1)[0]
    pause = "select skipmq.set_queue_attributes(%s, jsonb_build_object('Paused', %s::text))"
    orders.connection.execute(pause, (orders.id, "true"))
    orders.send("b")

    paused = orders.poll()
    deleted = orders.delete(held)
    orders.connection.execute(pause, (orders.id, "false"))

    assert [(row["id"], row["next_visible_in"]) for row in paused] == [(None, None)]
    assert deleted == 1
    counts = [row["approximate_receive_count"] for row in orders.receive(limit=10)]
    assert counts == [1, 1]


def test_receive_with_timeout_of_zero_leaves_the_message_visible(orders: Queue) -> None:
    orders.send("a")

    assert orders.bodies(timeout=0) == ["a"]
    assert orders.bodies() == ["a"]


@pytest.mark.parametrize("limit", [1, 3, 10])
def test_receive_never_gives_more_than_the_limit(orders: Queue, limit: int) -> None:
    orders.send(*"abcdefghijklmno")

    assert len(orders.receive(limit=limit)) == limit


def test_receive_of_nothing_says_when_the_next_becomes_visible(orders: Queue) -> None:
    empty = orders.poll()
    orders.send("later", delay=60)
    orders.send("sooner", delay=20)

    waiting = orders.poll()

    assert empty[0]["id"] is None
    assert empty[0]["next_visible_in"] is None
    assert waiting[0]["id"] is None
    assert 10 < waiting[0]["next_visible_in"].total_seconds() <= 20


def test_receive_passes_over_rows_that_others_hold(database: str, orders: Queue) -> None:
    orders.send("held", "free")
    with psycopg.connect(database) as other:
        held = Queue(other).receive(limit=1)

        rest = orders.bodies()

    assert {held[0]["body"], *rest} == {"held", "free"}
    assert len(rest) == 1


def test_receive_that_rolls_back_leaves_the_message_as_it_was(orders: Queue) -> None:
    orders.send("a")
    with orders.connection.transaction(force_rollback=True):
        orders.receive()

    (row,) = orders.receive()

    assert row["approximate_receive_count"] == 1


def test_receive_by_many_at_once_delivers_each_message_once(database: str, orders: Queue) -> None:
    for start in range(0, 400, 100):
        orders.send(*(str(n) for n in range(start, start + 100)))
    got: list[str] = []

    def consume() -> None:
        with psycopg.connect(as_node(database), autocommit=True) as connection:
            queue = Queue(connection)
            while bodies := queue.bodies():
                got.extend(bodies)

    threads = [threading.Thread(target=consume) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(map(int, got)) == list(range(400))


def test_receive_never_gives_an_expired_message(owner: Connection) -> None:
    queue = Queue(owner, MessageRetentionPeriod=60)
    queue.send("old")
    advance(owner, "61 seconds")
    queue.send("new")

    assert queue.bodies() == ["new"]


def test_receive_settles_what_expired_while_it_was_in_flight(owner: Connection) -> None:
    queue = Queue(owner, MessageRetentionPeriod=60)
    queue.send(*(f"old {n}" for n in range(25)))
    queue.receive(timeout=50)
    queue.receive(timeout=50)
    queue.receive(timeout=50)
    advance(owner, "61 seconds")
    queue.send("new")

    got = queue.bodies()

    assert got == ["new"]
    assert history(owner) == [("expired",)] * 25


def test_receive_from_another_queue_finds_nothing(node: Connection) -> None:
    Queue(node, "orders").send("a")

    assert Queue(node, "other").bodies() == []


def test_receive_from_no_queue_raises_moved(orders: Queue) -> None:
    orders.id = 999

    with pytest.raises(psycopg.Error) as caught:
        orders.receive()

    assert caught.value.sqlstate == "SQ005"


def test_receive_of_large_body_gives_it_whole(orders: Queue) -> None:
    body = "ß" * 500_000
    orders.send(body)

    assert orders.bodies() == [body]


def test_receive_count_is_a_fence_that_only_grows(orders: Queue) -> None:
    orders.send("a")

    counts = [orders.receive(timeout=0)[0]["receive_count"] for _ in range(3)]

    assert counts == [1, 2, 3]
    assert number(orders.connection, "select receive_count from skipmq.message where id > 0") == 3


@pytest.mark.parametrize(("limit", "timeout"), [(0, 0), (11, 0), (1, -5), (1, 999_999_999)])
def test_receive_by_sql_out_of_range_is_refused(orders: Queue, limit: int, timeout: int) -> None:
    orders.send("a")

    with pytest.raises(psycopg.Error) as caught:
        orders.receive(limit, timeout)

    assert caught.value.sqlstate == "SQ008"
    assert orders.bodies() == ["a"]


def test_message_whose_visibility_timeout_ended_comes_before_newer_ones(orders: Queue) -> None:
    orders.send("first")
    orders.send("second")
    orders.receive(1, timeout=30)
    advance(orders.connection, "10 s")
    orders.send("third")
    assert orders.bodies(1) == ["second"]
    advance(orders.connection, "31 s")

    assert orders.bodies(1) == ["first"]
    assert orders.bodies() == ["third"]


def test_message_that_was_made_visible_comes_before_newer_ones(orders: Queue) -> None:
    orders.send("first")
    orders.send("second")
    received = orders.receive(1)
    orders.send("third")
    orders.hide(0, *received)

    assert orders.bodies() == ["first", "second", "third"]


def test_message_that_reached_no_client_comes_before_newer_ones(orders: Queue) -> None:
    orders.send("first")
    orders.send("second")
    (received,) = orders.receive(1)
    orders.connection.execute(
        "select skipmq.return_messages(%s, %s::bigint[], %s::int[], %s::uuid[])",
        (orders.id, *receipts([received])),
    )

    assert orders.bodies() == ["first", "second"]
