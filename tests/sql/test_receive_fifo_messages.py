from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import advance, history, number, redrive_policy, until_blocked

POLICY = redrive_policy("dead.fifo")


def test_receive_gives_a_group_in_order_and_as_many_of_it_as_asked(fifo: FifoQueue) -> None:
    fifo.put("a:1", "b:1", "a:2", "a:3")

    assert fifo.take(3) == ["a:1", "a:2", "a:3"]
    assert fifo.take(3) == ["b:1"]


def test_receive_fills_up_from_the_next_groups(fifo: FifoQueue) -> None:
    fifo.put("a:1", "b:1", "c:1", "b:2", "d:1", "d:2")

    assert fifo.take(5) == ["a:1", "b:1", "b:2", "c:1", "d:1"]


def test_group_in_flight_gives_nothing_more(fifo: FifoQueue) -> None:
    fifo.put("a:1", "a:2", "a:3")
    first = fifo.receive(1)

    assert fifo.take() == []
    assert fifo.put("a:4")
    assert fifo.take() == []
    fifo.delete(*first)
    assert fifo.take() == ["a:2", "a:3", "a:4"]


def test_group_goes_on_after_all_in_flight_are_deleted(fifo: FifoQueue) -> None:
    fifo.put("a:1", "a:2", "a:3")
    one, two = fifo.receive(2)

    fifo.delete(two)
    assert fifo.take() == []
    fifo.delete(one)

    assert fifo.take() == ["a:3"]


def test_group_comes_again_in_order_after_its_timeout(fifo: FifoQueue) -> None:
    fifo.put("a:1", "a:2", "a:3")
    assert fifo.take(2, timeout=30) == ["a:1", "a:2"]

    advance(fifo.connection, "31 s")

    assert fifo.take() == ["a:1", "a:2", "a:3"]


def test_later_messages_stay_hidden_behind_a_first_that_was_extended(fifo: FifoQueue) -> None:
    fifo.put("a:1", "a:2", "a:3")
    one, _ = fifo.receive(2, timeout=30)
    assert fifo.hide(100, one) == ["changed"]

    advance(fifo.connection, "31 s")

    assert fifo.take() == []


def test_messages_before_the_one_in_flight_come_out(fifo: FifoQueue) -> None:
    fifo.put("a:1", "a:2", "a:3", "a:4")
    one, two, _ = fifo.receive(3)
    assert fifo.hide(0, one, two) == ["changed", "changed"]

    assert fifo.take() == ["a:1", "a:2"]
    assert fifo.take() == []


def test_group_shown_again_comes_at_once_and_whole(fifo: FifoQueue) -> None:
    fifo.put("a:1", "a:2", "a:3")
    received = fifo.receive(2)
    fifo.hide(0, *received)

    assert fifo.take() == ["a:1", "a:2", "a:3"]


def test_queue_delay_holds_messages_and_applies_to_what_waits(owner: Connection) -> None:
    fifo = FifoQueue(owner, DelaySeconds=60)
    fifo.put("a:1", "b:1")
    (nothing,) = fifo.poll()
    assert nothing["id"] is None
    assert 30 < nothing["next_visible_in"].total_seconds() <= 60

    owner.execute(
        'select skipmq.set_queue_attributes(%s, \'{"DelaySeconds": "0"}\'::jsonb)', (fifo.id,)
    )

    assert sorted(fifo.take()) == ["a:1", "b:1"]


def test_delayed_message_behind_a_visible_one_waits(owner: Connection) -> None:
    fifo = FifoQueue(owner, DelaySeconds=60)
    fifo.put("a:1")
    advance(owner, "50 s")
    fifo.put("a:2")
    advance(owner, "61 s")

    assert fifo.take() == ["a:1"]
    assert fifo.counts() == (0, 1, 1)


def test_received_message_waits_for_no_delay(owner: Connection) -> None:
    fifo = FifoQueue(owner, DelaySeconds=60)
    fifo.put("a:1")
    advance(owner, "61 s")
    received = fifo.receive()
    fifo.hide(0, *received)

    assert fifo.take() == ["a:1"]


def test_empty_receive_tells_when_the_next_group_comes(fifo: FifoQueue) -> None:
    (nothing,) = fifo.poll()
    assert nothing["next_visible_in"] is None
    fifo.put("a:1")
    fifo.receive(timeout=300)

    (later,) = fifo.poll()

    assert 250 < later["next_visible_in"].total_seconds() <= 300


def test_expired_messages_make_way(owner: Connection) -> None:
    fifo = FifoQueue(owner, MessageRetentionPeriod=60)
    fifo.put("a:1", "a:2")
    advance(owner, "50 s")
    fifo.put("a:3")
    advance(owner, "61 s")

    assert fifo.take() == ["a:3"]
    assert history(owner) == [("expired",), ("expired",)]


def test_message_received_too_often_goes_to_the_dead_letters_in_order(owner: Connection) -> None:
    dead = FifoQueue(owner, "dead.fifo")
    fifo = FifoQueue(owner, RedrivePolicy=redrive_policy("dead.fifo", 2))
    sent = fifo.put("a:1", "a:2", "a:3")
    for _ in range(2):
        assert fifo.take(2, timeout=0) == ["a:1", "a:2"]

    assert fifo.take() == ["a:3"]

    moved = dead.receive()
    assert [message["body"] for message in moved] == ["1", "2"]
    assert [str(message["message_id"]) for message in moved] == [s.message_id for s in sent[:2]]
    assert [message["approximate_receive_count"] for message in moved] == [3, 3]
    assert {message["dead_letter_source"] for message in moved} == {
        "arn:aws:sqs:us-east-1:000000000000:orders.fifo"
    }
    assert moved[0]["sequence_number"] < moved[1]["sequence_number"]
    assert history(owner) == [("dead-lettered",), ("dead-lettered",)]
    assert fifo.counts() == (0, 1, 0)
    assert dead.counts() == (0, 2, 0)


def test_receive_with_timeout_zero_gives_each_message_once_in_a_call(fifo: FifoQueue) -> None:
    fifo.put("a:1", "b:1")

    assert sorted(fifo.take(10, timeout=0)) == ["a:1", "b:1"]


def test_receive_on_a_standard_queue_is_refused(fifo: FifoQueue) -> None:
    fifo.id = number(fifo.connection, "select skipmq.create_queue('plain')")

    with pytest.raises(psycopg.Error) as caught:
        fifo.poll()

    assert caught.value.sqlstate == "SQ007"


def test_receive_on_a_purged_generation_is_refused(fifo: FifoQueue) -> None:
    fifo.put("a:1")
    number(fifo.connection, "select skipmq.purge_queue(%s)", fifo.id)

    with pytest.raises(psycopg.Error) as caught:
        fifo.poll()

    assert caught.value.sqlstate == "SQ005"


def test_group_row_goes_with_its_last_message(fifo: FifoQueue) -> None:
    fifo.put("a:1", "b:1")
    assert fifo.groups() == 2

    fifo.delete(*fifo.receive())

    assert fifo.groups() == 0


def test_group_row_stays_while_a_sender_is_at_it(fifo: FifoQueue, database: str) -> None:
    fifo.put("a:1")
    received = fifo.receive()
    with psycopg.connect(database) as other:
        fifo.on(other).put("a:2")
        assert fifo.delete(*received) == 1
        assert fifo.groups() == 1
        other.commit()

    advance(fifo.connection, "1 s")
    assert fifo.take() == ["a:2"]


def test_groups_that_another_receiver_holds_are_passed_over(fifo: FifoQueue, database: str) -> None:
    fifo.put("a:1", "b:1")
    with psycopg.connect(database) as other:
        assert fifo.on(other).take(1) == ["a:1"]

        assert fifo.take() == ["b:1"]


def test_one_call_settles_only_so_many_and_says_to_poll_again(owner: Connection) -> None:
    fifo = FifoQueue(owner, MessageRetentionPeriod=60)
    for start in range(0, 1500, 500):
        fifo.put(*[f"{n}:late" for n in range(start, start + 500)])
    advance(owner, "61 s")
    fifo.put("a:1")

    (nothing,) = fifo.poll()

    assert nothing["id"] is None
    assert nothing["next_visible_in"].total_seconds() == 0
    assert 0 < len(history(owner)) < 1000
    polls = [fifo.take() for _ in range(3)]
    assert [polled for polled in polls if polled] == [["a:1"]]


def test_delayed_groups_are_read_once_each(owner: Connection) -> None:
    fifo = FifoQueue(owner, DelaySeconds=900)
    for start in range(0, 1500, 500):
        fifo.put(*[f"{n}:later" for n in range(start, start + 500)])

    polls = [fifo.poll()[0]["next_visible_in"].total_seconds() for _ in range(3)]

    assert polls[0] == 0
    assert polls[2] > 800


def test_receive_while_the_dead_letter_queue_is_purged_ends(
    owner: Connection, database: str
) -> None:
    dead = FifoQueue(owner, "dead.fifo")
    fifo = FifoQueue(owner, RedrivePolicy=POLICY)
    fifo.put("a:1", "a:2")
    fifo.receive(1, timeout=0)
    with (
        ThreadPoolExecutor(1) as pool,
        psycopg.connect(database) as purging,
        psycopg.connect(database, autocommit=True) as receiving,
    ):
        receiving.execute("set statement_timeout = '60s'")
        purging.execute("select skipmq.purge_queue(%s)", (dead.id,))
        polling = pool.submit(fifo.on(receiving).poll)
        until_blocked(owner)
        purging.commit()

        assert polling.result()[0]["id"] is None
    advance(owner, "1 second")  # The group is read again 10 ms later.

    assert fifo.take() == ["a:2"]


def test_receive_while_its_queue_is_purged_ends(owner: Connection, database: str) -> None:
    dead = FifoQueue(owner, "dead.fifo")
    fifo = FifoQueue(owner, RedrivePolicy=POLICY)
    fifo.put("a:1", "a:2")
    fifo.receive(1, timeout=0)
    with (
        ThreadPoolExecutor(1) as pool,
        psycopg.connect(database) as purging,
        psycopg.connect(database, autocommit=True) as receiving,
    ):
        purging.execute("select skipmq.purge_queue(%s)", (dead.id,))
        polling = pool.submit(fifo.on(receiving).take)
        until_blocked(owner)
        owner.execute("select skipmq.purge_queue(%s)", (fifo.id,))
        purging.rollback()

        assert polling.result() == ["a:2"]

    assert dead.take() == ["a:1"]


@pytest.mark.parametrize(("limit", "timeout"), [(0, 0), (11, 0), (1, -5), (1, 999_999_999)])
def test_receive_by_sql_out_of_range_is_refused(fifo: FifoQueue, limit: int, timeout: int) -> None:
    fifo.put("a:1")

    with pytest.raises(psycopg.Error) as caught:
        fifo.receive(limit, timeout)

    assert caught.value.sqlstate == "SQ008"
    assert fifo.take() == ["a:1"]
