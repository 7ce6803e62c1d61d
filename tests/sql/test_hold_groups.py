"""Locks of groups: few enough for the server, whatever a transaction does, and right."""

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from support.applications import dead_letter
from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import Queue, number, receipts, redrive_policy, until_blocked

HOLD = "select skipmq.hold_groups(%s, %s::bigint[], %s::boolean)"
WAIT, NO_WAIT = "true", "false"
# More than a transaction locks one by one, and the most advisory locks that it may have then.
MANY, MOST = 900, 600
LOCKS = "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()"
SEND = "select count(skipmq.send_message('orders', n::text)) from generate_series(1, %s) n"
SEND_FIFO = (
    "select count(skipmq.send_fifo_message('orders.fifo', n::text, 'group-' || n, n::text))"
    " from generate_series(1, %s) n"
)
SEND_AT_ONCE = (
    "select count(*) from skipmq.send_fifo_messages("
    "%s, array(select gen_random_uuid() from generate_series(1, %s)),"
    " array(select n::text from generate_series(1, %s) n), null,"
    " array(select 'group-' || n from generate_series(1, %s) n),"
    " array(select n::text from generate_series(1, %s) n), null)"
)
# As a node sends: it does not wait.
TRY = (
    "select count(*) from skipmq.send_fifo_messages("
    "%s, array[gen_random_uuid()], array['late'], null, array[%s],"
    " array[gen_random_uuid()::text], null, null, 'on', array[0])"
)


def test_sends_to_a_standard_queue_lock_the_queue_alone(orders: Queue) -> None:
    with orders.connection.transaction():
        number(orders.connection, SEND, MANY)

        assert number(orders.connection, LOCKS) == 1

    assert orders.counts() == (MANY, 0, 0)


def test_sends_to_many_groups_lock_few(fifo: FifoQueue) -> None:
    with fifo.connection.transaction():
        number(fifo.connection, SEND_FIFO, MANY)

        assert 400 < number(fifo.connection, LOCKS) <= MOST

    assert fifo.counts() == (MANY, 0, 0)


def test_send_of_many_groups_at_once_locks_few(fifo: FifoQueue) -> None:
    with fifo.connection.transaction():
        assert number(fifo.connection, SEND_AT_ONCE, fifo.id, *[MANY] * 4) == MANY

        assert number(fifo.connection, LOCKS) == 2


def test_sends_to_one_group_lock_it_alone(fifo: FifoQueue, database: str) -> None:
    with psycopg.connect(database) as sender:
        mine = fifo.on(sender)
        for n in range(600):
            mine.put(f"mine:{n}")

        assert number(sender, LOCKS) == 2
        assert number(fifo.connection, TRY, fifo.id, "another") == 1


def test_deletes_from_many_groups_lock_few_and_leave_no_group_for_good(fifo: FifoQueue) -> None:
    number(fifo.connection, SEND_AT_ONCE, fifo.id, *[MANY] * 4)
    with fifo.connection.transaction():
        while received := [row for row in fifo.poll() if row["id"] is not None]:
            fifo.connection.execute(
                "select skipmq.delete_fifo_messages(%s, %s::bigint[], %s::int[], %s::uuid[])",
                (fifo.id, *receipts(received)),
            )

        assert number(fifo.connection, LOCKS) <= MOST

    groups = "select count(*) from skipmq.message_group where queue_id = %s"
    assert number(fifo.connection, groups, fifo.id) > 0
    for _ in range(200):
        fifo.poll()
        if number(fifo.connection, groups, fifo.id) == 0:
            break
        fifo.connection.execute("select pg_sleep(0.01)")
    assert number(fifo.connection, groups, fifo.id) == 0


def test_dead_letters_of_many_groups_lock_few(owner: Connection) -> None:
    dead = FifoQueue(owner, "dead.fifo")
    fifo = FifoQueue(owner, RedrivePolicy=redrive_policy("dead.fifo", 5))
    number(owner, SEND_AT_ONCE, fifo.id, *[MANY] * 4)
    with owner.transaction():
        moved = 0
        while received := [row for row in fifo.poll() if row["id"] is not None]:
            for row in received:
                moved += dead_letter(owner, "orders.fifo", row)

        assert moved == MANY
        assert number(owner, LOCKS) <= MOST

    assert sum(dead.counts()) == MANY


def test_queues_and_attempts_of_a_transaction_lock_few(owner: Connection, database: str) -> None:
    fifo = FifoQueue(owner)
    classes = (
        "select max(n) from (select count(distinct objid) as n from pg_locks"
        " where locktype = 'advisory' and pid = pg_backend_pid() group by classid) c"
    )
    with psycopg.connect(database) as user:
        made = "select array_agg(skipmq.create_queue('q' || n)) from generate_series(1, 1200) n"
        queues = number(user, made)
        user.execute("select skipmq.hold_generation(q) from unnest(%s::bigint[]) q", (queues,))
        user.execute("select skipmq.delete_queue(q) from unnest(%s::bigint[]) q", (queues,))
        user.execute(
            "select skipmq.receive_fifo_attempt(%s, 'a' || n) from generate_series(1, 1200) n",
            (fifo.id,),
        )

        assert 600 < number(user, classes) <= 1024


def test_large_transaction_excludes_newcomers_and_keeps_the_order_of_each_group(
    fifo: FifoQueue, database: str
) -> None:
    other = FifoQueue(fifo.connection, "another.fifo")
    with psycopg.connect(database) as large:
        number(large, SEND_FIFO, MANY)
        assert number(fifo.connection, TRY, fifo.id, f"group-{MANY}") == 0
        assert number(fifo.connection, TRY, fifo.id, "unknown") == 0
        assert number(fifo.connection, TRY, other.id, "unknown") == 1
    assert number(fifo.connection, TRY, fifo.id, f"group-{MANY}") == 1

    of_group = [
        body
        for (body,) in fifo.connection.execute(
            "select body from skipmq.message where queue_id = %s and group_id = %s"
            " order by sequence_number",
            (fifo.id, f"group-{MANY}"),
        )
    ]
    assert of_group == [str(MANY), "late"]


def test_large_transaction_waits_for_those_who_were_there_before(
    fifo: FifoQueue, database: str
) -> None:
    with psycopg.connect(database) as early, psycopg.connect(database) as large:
        fifo.on(early).put(f"group-{MANY}:early", "elsewhere:early")
        with ThreadPoolExecutor(1) as pool:
            sent = pool.submit(number, large, SEND_FIFO, MANY)
            until_blocked(fifo.connection)
            early.commit()
            assert sent.result(timeout=60) == MANY
        large.commit()

    bodies = (
        "select array_agg(body order by sequence_number) from skipmq.message where group_id = %s"
    )
    assert number(fifo.connection, bodies, f"group-{MANY}") == ["early", str(MANY)]


def test_two_large_transactions_on_different_groups_follow_each_other(
    fifo: FifoQueue, database: str
) -> None:
    with psycopg.connect(database) as one, psycopg.connect(database) as two:
        for connection, first in ((one, 1), (two, 10_000)):
            connection.execute(HOLD, (fifo.id, list(range(first, first + 490)), WAIT))
        number(one, HOLD, fifo.id, list(range(1000, 1100)), WAIT)
        with ThreadPoolExecutor(1) as pool:
            held = pool.submit(number, two, HOLD, fifo.id, list(range(1000, 1100)), WAIT)
            until_blocked(fifo.connection)
            one.commit()
            assert held.result(timeout=60) == []


@pytest.mark.parametrize("waits", [NO_WAIT, None])
def test_what_does_not_wait_returns_what_others_hold(
    fifo: FifoQueue, database: str, waits: str | None
) -> None:
    with psycopg.connect(database) as other:
        other.execute(HOLD, (fifo.id, [7], WAIT))

        assert number(fifo.connection, HOLD, fifo.id, [6, 7, 8, 7], waits) == [7]


def test_beyond_some_five_hundred_what_does_not_wait_takes_the_queue_or_nothing(
    fifo: FifoQueue, database: str
) -> None:
    many = list(range(10**17, 10**17 + MANY))
    with psycopg.connect(database) as other, psycopg.connect(database) as user:
        other.execute(HOLD, (fifo.id, [many[5]], WAIT))

        assert number(user, HOLD, fifo.id, many, None) == many
        assert number(user, HOLD, fifo.id, many, NO_WAIT) == [many[5]]
        assert number(user, LOCKS) == 1
        other.rollback()
        assert number(other, HOLD, fifo.id, [3], NO_WAIT) == [3]


def test_nothing_is_held_after_a_rollback_to_a_savepoint(fifo: FifoQueue, database: str) -> None:
    with psycopg.connect(database) as user:
        user.execute("savepoint before")
        user.execute(HOLD, (fifo.id, [7], WAIT))
        user.execute("rollback to savepoint before")
        assert number(fifo.connection, HOLD, fifo.id, [7], NO_WAIT) == []
        user.execute(HOLD, (fifo.id, [7], WAIT))

        assert number(fifo.connection, HOLD, fifo.id, [7], NO_WAIT) == [7]


@pytest.mark.slow
@pytest.mark.parametrize("send", [SEND, SEND_FIFO])
def test_hundred_thousand_sends_of_a_transaction(orders: Queue, fifo: FifoQueue, send: str) -> None:
    with orders.connection.transaction():
        number(orders.connection, send, 100_000)

        assert number(orders.connection, LOCKS) <= MOST

    assert sum(orders.counts()) + sum(fifo.counts()) == 100_000
