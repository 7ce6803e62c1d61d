import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from support.fifo import FifoQueue
from support.postgres import Connection, as_node
from support.sql import Queue, advance, history, number, receipts, until_blocked

SOURCE = "arn:aws:sqs:us-east-1:000000000000:orders"


def redrive(name: str, most: int) -> str:
    return (
        f'{{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:{name}",'
        f'"maxReceiveCount":{most}}}'
    )


@pytest.fixture
def dead(owner: Connection) -> Queue:
    return Queue(owner, "dead")


def orders_with(dead: Queue, most: int, **attributes: object) -> Queue:
    return Queue(dead.connection, RedrivePolicy=redrive("dead", most), **attributes)


def test_receive_that_would_exceed_the_maximum_moves_instead(dead: Queue) -> None:
    orders = orders_with(dead, 2)
    orders.send("poison")

    first, second, third = (orders.receive(timeout=0) for _ in range(3))

    assert [len(r) for r in (first, second, third)] == [1, 1, 0]
    (letter,) = dead.receive()
    assert letter["message_id"] == first[0]["message_id"]
    assert letter["body"] == "poison"
    assert letter["approximate_receive_count"] == 3
    assert letter["dead_letter_source"] == SOURCE
    assert letter["sent_at"] == first[0]["sent_at"]
    assert letter["first_received_at"] == first[0]["first_received_at"]


def test_message_stays_until_it_is_received_again(dead: Queue) -> None:
    orders = orders_with(dead, 1)
    orders.send("a")
    orders.receive(timeout=5)

    advance(dead.connection, "6 seconds")

    assert (orders.counts(), dead.counts()) == ((1, 0, 0), (0, 0, 0))


def test_move_makes_room_for_the_messages_behind(dead: Queue) -> None:
    orders = orders_with(dead, 1)
    orders.send(*(f"bad {n}" for n in range(35)))
    for _ in range(4):
        orders.receive(timeout=5)
    advance(dead.connection, "6 seconds")
    orders.send("good 1", "good 2")

    assert orders.bodies() == ["good 1", "good 2"]
    assert dead.counts() == (35, 0, 0)


def test_move_leaves_history_as_the_sources_mode_says(dead: Queue) -> None:
    orders = orders_with(dead, 1, HistoryMode="full")
    orders.send("a")
    orders.receive(timeout=0)

    orders.receive()

    columns = "outcome, queue_id, receive_count, body"
    assert history(dead.connection, columns) == [("dead-lettered", orders.id, 1, "a")]


def test_receipt_from_before_the_move_is_dead(dead: Queue) -> None:
    orders = orders_with(dead, 1)
    orders.send("a")
    received = orders.receive(timeout=0)
    orders.receive()

    assert orders.delete(*received) == 0
    assert orders.hide(0, *received) == ["missing"]
    assert dead.delete(*received) == 0
    assert dead.delete(*dead.receive()) == 1


def test_dead_letter_queue_may_have_one_of_its_own(owner: Connection) -> None:
    last = Queue(owner, "last")
    dead = Queue(owner, "dead", RedrivePolicy=redrive("last", 2))
    orders = orders_with(dead, 1)
    orders.send("a")

    orders.receive(timeout=0)
    orders.receive()
    in_dead = [m for _ in range(3) for m in dead.receive(timeout=0)]
    (letter,) = last.receive()

    # The count that receivers see goes on; the limit is that of receives from this queue.
    assert [m["approximate_receive_count"] for m in in_dead] == [2, 3]
    assert letter["approximate_receive_count"] == 4
    assert letter["dead_letter_source"] == SOURCE.replace("orders", "dead")


def test_receive_that_is_undone_counts_in_no_queue_of_a_chain(owner: Connection) -> None:
    last = Queue(owner, "last")
    dead = Queue(owner, "dead", RedrivePolicy=redrive("last", 2))
    orders = orders_with(dead, 1)
    orders.send("a")
    orders.receive(timeout=0)
    orders.receive()
    (claimed,) = dead.receive()

    owner.execute(
        "select skipmq.return_messages(%s, %s::bigint[], %s::int[], %s::uuid[])",
        (dead.id, *receipts([claimed])),
    )

    counts = [m["approximate_receive_count"] for _ in range(3) for m in dead.receive(timeout=0)]
    assert counts == [2, 3]
    assert len(last.receive()) == 1


@pytest.mark.parametrize("suffix", ["", ".fifo"])
def test_moved_message_is_counted_again_in_each_queue_of_a_chain(
    owner: Connection, suffix: str
) -> None:
    kind = FifoQueue if suffix else Queue
    last = kind(owner, f"last{suffix}")
    dead = kind(owner, f"dead{suffix}", RedrivePolicy=redrive(last.name, 2))
    orders = kind(owner, f"orders{suffix}", RedrivePolicy=redrive(dead.name, 2))
    orders.put("g:a") if isinstance(orders, FifoQueue) else orders.send("a")

    def counts(queue: Queue) -> list[int]:
        """Return the counts of all that a queue yields until it has moved the message on."""
        return [m["approximate_receive_count"] for _ in range(3) for m in queue.receive(timeout=0)]

    assert (counts(orders), counts(dead)) == ([1, 2], [3, 4])
    (letter,) = last.receive(timeout=0)
    owner.execute(
        "select skipmq.move_messages(%s, array[%s::bigint], array[%s::uuid], %s)",
        (last.id, letter["id"], letter["message_id"], orders.id),
    )

    assert (counts(orders), counts(dead)) == ([1, 2], [3, 4])
    assert counts(last) == [5, 6, 7]


def test_deleted_dead_letter_queue_leaves_messages_where_they_are(dead: Queue) -> None:
    orders = orders_with(dead, 1)
    orders.send("a")
    dead.connection.execute("select skipmq.delete_queue(%s)", (dead.id,))

    assert [len(orders.receive(timeout=0)) for _ in range(4)] == [1, 1, 1, 1]


def test_policy_set_later_and_taken_away_applies_at_once(dead: Queue) -> None:
    orders = Queue(dead.connection)
    orders.send("a", "b")
    statement = (
        "select skipmq.set_queue_attributes(%s, jsonb_build_object('RedrivePolicy', %s::text))"
    )
    for _ in range(3):
        orders.receive(timeout=0)
    dead.connection.execute(statement, (orders.id, redrive("dead", 3)))
    moved = orders.receive(timeout=0)
    orders.send("c")
    dead.connection.execute(statement, (orders.id, ""))

    assert moved == []
    assert dead.counts() == (2, 0, 0)
    assert [orders.bodies(timeout=0) for _ in range(4)] == [["c"]] * 4


def test_many_receivers_never_exceed_the_maximum(database: str, dead: Queue) -> None:
    orders = orders_with(dead, 3)
    orders.send(*(str(n) for n in range(60)))
    got: list[tuple[str, int]] = []

    def consume() -> None:
        with psycopg.connect(as_node(database), autocommit=True) as connection:
            queue = Queue(connection, RedrivePolicy=redrive("dead", 3))
            for _ in range(60):
                received = queue.receive(limit=5, timeout=0)
                got.extend((r["body"], r["approximate_receive_count"]) for r in received)

    threads = [threading.Thread(target=consume) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(got)) == len(got)
    assert {count for _, count in got} == {1, 2, 3}
    assert dead.counts() == (60, 0, 0)
    assert number(dead.connection, "select count(*) from skipmq.history") == 60


def test_move_is_not_for_nodes_to_call(node: Connection) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        node.execute(
            "select skipmq.move_to_dead_letter_queue(1, 0::smallint, 2, 1, now(), now(), 1)"
        )


def test_queue_that_is_its_own_dead_letter_queue_goes_on_delivering(dead: Queue) -> None:
    dead.send("a")
    dead.connection.execute(
        "update skipmq.queue set dead_letter_account = account, dead_letter_name = name,"
        " max_receive_count = 1"
    )

    assert [len(dead.receive(timeout=0)) for _ in range(3)] == [1, 1, 1]


def test_message_received_for_no_time_is_neither_given_twice_nor_moved_by_the_same_call(
    dead: Queue,
) -> None:
    orders = orders_with(dead, 1)
    orders.send("old")
    orders.receive(timeout=0)
    orders.send("new")

    received = orders.receive(timeout=0)

    assert [r["body"] for r in received] == ["new"]
    assert orders.delete(*received) == 1
    assert dead.bodies() == ["old"]


def test_receives_in_front_of_very_many_for_the_dead_letter_queue_move_them_in_parts(
    dead: Queue,
) -> None:
    orders = orders_with(dead, 1)
    orders.connection.execute(
        "insert into skipmq.message (id, visible_at, sent_at, enqueued_at, queue_id, receive_count,"
        " message_id, body) select nextval('skipmq.message_id_seq'), now(), now(), now(), %s, 1,"
        " gen_random_uuid(), 'x' from generate_series(1, 20000)",
        (orders.id,),
    )
    orders.send("alive")
    # Without a bound on the work per message this takes minutes.
    orders.connection.execute("set statement_timeout = '30s'")

    (nothing,) = orders.poll()
    assert nothing["id"] is None
    assert nothing["next_visible_in"].total_seconds() == 0
    assert dead.counts() == (10_000, 0, 0)
    assert orders.bodies() == ["alive"]
    assert dead.counts() == (20_000, 0, 0)


def test_dead_letter_queue_purged_meanwhile_loses_nothing(database: str, dead: Queue) -> None:
    orders = orders_with(dead, 1)
    orders.send("a")
    orders.receive(timeout=0)
    with (
        psycopg.connect(database) as other,
        psycopg.connect(database, autocommit=True) as third,
        ThreadPoolExecutor() as pool,
    ):
        other.execute("select skipmq.purge_queue(%s)", (dead.id,))
        receiver = Queue(third, RedrivePolicy=redrive("dead", 1))
        moved = pool.submit(receiver.receive)
        until_blocked(dead.connection)

        other.commit()

        assert moved.result() == []
    dead.id = number(dead.connection, "select skipmq.queue_id('dead')")
    assert orders.counts()[0] + dead.counts()[0] == 1
