from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from support.postgres import Connection
from support.sql import Queue, Redrive, advance, number, receipts, until_blocked


def test_change_to_longer_hides_for_that_long_from_now(orders: Queue) -> None:
    orders.send("a")
    received = orders.receive()
    advance(orders.connection, "20 seconds")

    outcome = orders.hide(100, *received)

    advance(orders.connection, "110 seconds")
    assert orders.bodies() == []
    advance(orders.connection, "121 seconds")
    assert orders.bodies() == ["a"]
    assert outcome == ["changed"]


def test_change_to_zero_shows_the_message_at_once(orders: Queue) -> None:
    orders.send("a")

    outcome = orders.hide(0, *orders.receive())

    assert outcome == ["changed"]
    assert orders.bodies() == ["a"]


def test_change_after_the_timeout_hides_again(orders: Queue) -> None:
    orders.send("a")
    received = orders.receive()
    advance(orders.connection, "31 seconds")

    assert orders.hide(10, *received) == ["changed"]

    assert orders.bodies() == []
    advance(orders.connection, "42 seconds")
    assert orders.bodies() == ["a"]


def test_change_after_delete_says_missing(orders: Queue) -> None:
    orders.send("a")
    received = orders.receive()
    orders.delete(*received)

    assert orders.hide(10, *received) == ["missing"]


def test_change_with_an_earlier_receipt_changes_the_message(orders: Queue) -> None:
    orders.send("a")
    earlier = orders.receive(timeout=0)
    later = orders.receive(timeout=30)

    assert orders.hide(600, *earlier) == ["changed"]
    advance(orders.connection, "31 seconds")
    assert orders.bodies() == []
    assert orders.hide(0, *earlier) == ["changed"]
    assert orders.hide(50, *earlier, *later) == ["changed", "changed"]


def test_change_with_a_receipt_from_before_a_move_there_and_back_says_missing(
    owner: Connection,
) -> None:
    redrive = Redrive(owner, 0)
    redrive.source.send("a")
    received = redrive.source.receive(timeout=0)
    assert redrive.source.bodies() == []
    redrive.start()
    owner.execute("select skipmq.advance_move_tasks()")

    assert redrive.source.hide(60, *received) == ["missing"]
    assert redrive.source.bodies() == ["a"]


def test_change_with_a_receipt_that_is_yet_to_come_says_missing(orders: Queue) -> None:
    orders.send("a")
    (received,) = orders.receive()
    received["receive_count"] += 1

    assert orders.hide(0, received) == ["missing"]
    assert orders.bodies() == []


@pytest.mark.parametrize(
    ("passed", "timeout", "outcome"),
    [
        ("0", 43_200, "beyond-limit"),
        ("9 seconds", 43_100, "changed"),
        ("9 seconds", 43_195, "beyond-limit"),
    ],
)
def test_change_beyond_twelve_hours_from_the_receive_is_refused(
    orders: Queue, passed: str, timeout: int, outcome: str
) -> None:
    orders.send("a")
    received = orders.receive()
    advance(orders.connection, passed)

    assert orders.hide(timeout, *received) == [outcome]


def test_change_of_many_answers_in_the_order_of_the_call(orders: Queue) -> None:
    orders.send("a", "b", "c")
    a, b, c = orders.receive()
    orders.delete(b)

    assert orders.hide(50, c, b, a) == ["changed", "missing", "changed"]


def test_change_that_waits_for_another_has_the_last_word(database: str, orders: Queue) -> None:
    orders.send("a")
    received = orders.receive()
    with (
        psycopg.connect(database) as other,
        psycopg.connect(database, autocommit=True) as third,
        ThreadPoolExecutor() as pool,
    ):
        Queue(other).hide(5, *received)
        changed = pool.submit(Queue(third).hide, 600, *received)
        until_blocked(orders.connection)

        other.commit()

        assert changed.result() == ["changed"]
    advance(orders.connection, "500 seconds")
    assert orders.bodies() == []


def test_changes_of_overlapping_batches_in_opposite_order_do_not_deadlock(
    database: str, orders: Queue
) -> None:
    orders.send(*"abcdefghij")
    received = orders.receive()

    def change(rows: list[dict[str, object]]) -> set[str]:
        with psycopg.connect(database, autocommit=True) as connection:
            return {o for _ in range(20) for o in Queue(connection).hide(60, *rows)}

    with ThreadPoolExecutor() as pool:
        outcomes = list(pool.map(change, [received, received[::-1]]))

    assert outcomes == [{"changed"}, {"changed"}]


@pytest.mark.parametrize("timeout", [-1, 43_201])
def test_change_by_sql_out_of_range_is_refused(orders: Queue, timeout: int) -> None:
    orders.send("a")
    received = orders.receive()

    with pytest.raises(psycopg.Error) as caught:
        orders.hide(timeout, *received)

    assert caught.value.sqlstate == "SQ008"


def test_change_that_does_not_wait_leaves_what_another_holds(database: str, orders: Queue) -> None:
    orders.send("a", "b", "c")
    held, free, gone = orders.receive(timeout=600)
    orders.delete(gone)
    change = (
        "select array(select c.outcome from skipmq.change_visibility(%s, %s::bigint[], %s::int[],"
        " %s::uuid[], %s::timestamptz[], %s::int[], 'on', false) c order by c.place)"
    )
    three = [gone, held, free]
    times = [message["received_at"] for message in three]
    parameters = (orders.id, *receipts(three), times, [0, 0, 0])
    with psycopg.connect(database) as other:
        orders.on(other).hide(60, held)
        orders.connection.execute("set lock_timeout = '20 s'")

        assert number(orders.connection, change, *parameters) == ["missing", "held", "changed"]

        other.rollback()
    assert orders.bodies() == [free["body"]]
    assert number(orders.connection, change, *parameters) == ["missing", "changed", "changed"]
