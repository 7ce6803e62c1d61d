import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg

from support.fifo import FifoQueue
from support.sql import number, until_blocked

LOCK = "select cardinality(skipmq.lock_groups(%s, %s::bigint[]))"


def test_two_who_settle_the_same_groups_in_opposite_orders_do_not_deadlock(
    fifo: FifoQueue, database: str
) -> None:
    fifo.put(*[f"{n}:{m}" for n in range(10) for m in range(20)])
    outcomes: list[str] = []

    def settle(reverse: bool) -> None:
        with psycopg.connect(database, autocommit=True) as connection:
            twin = fifo.on(connection)
            for _ in range(60):
                received = twin.receive()
                if reverse:
                    received.reverse()
                outcomes.extend(twin.outcomes(*received))
                twin.hide(5, *received)

    threads = [threading.Thread(target=settle, args=(reverse,)) for reverse in (False, True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)

    while received := fifo.receive():
        outcomes.extend(fifo.outcomes(*received))
    assert outcomes == ["deleted"] * 200
    assert fifo.groups() == 0


def test_group_that_goes_while_one_waits_for_it_counts_as_not_locked(
    fifo: FifoQueue, database: str
) -> None:
    fifo.put("a:1", "b:1")
    received = fifo.receive()
    ids = [r["id"] for r in received]
    with (
        ThreadPoolExecutor(1) as pool,
        psycopg.connect(database) as first,
        psycopg.connect(database) as second,
    ):
        fifo.on(first).delete(received[0])
        waiting = pool.submit(number, second, LOCK, fifo.id, ids)
        until_blocked(fifo.connection)
        first.commit()

        assert waiting.result() == 1
