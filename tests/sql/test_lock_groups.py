import threading

import psycopg

from support.fifo import FifoQueue


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
