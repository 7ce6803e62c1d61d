import threading

import psycopg
import pytest

from support.http import eventually
from support.sql import Queue, number

WAITS = "select count(*) from pg_locks where locktype = 'advisory' and not granted"


def test_claim_waits_for_one_that_is_not_committed_and_then_counts_it(
    orders: Queue, database: str
) -> None:
    orders.send(*"abc")
    orders.set(MaximumInFlight=2)
    got: list[int] = []
    with psycopg.connect(database, autocommit=False) as other, psycopg.connect(database) as third:
        orders.on(other).receive(limit=2)
        waiting = threading.Thread(target=lambda: got.append(len(orders.on(third).receive())))
        waiting.start()
        eventually(lambda: number(orders.connection, WAITS) == 1)
        node = "select id from skipmq.receive_messages(%s, 10, null, 'off')"
        assert number(orders.connection, node, orders.id) is None
        other.commit()
        waiting.join()

    assert got == [0]


def test_transaction_whose_snapshot_is_old_is_refused(orders: Queue, database: str) -> None:
    orders.set(MaximumInFlight=2)
    with psycopg.connect(database) as other:
        other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="READ COMMITTED"):
            orders.on(other).receive()
