"""The janitor's round, on a real database."""

from collections.abc import Iterator

import psycopg
import pytest

from skipmq.janitor import CHUNK, Janitor
from skipmq.store import Database, Upkeep
from support.postgres import Connection, as_node
from support.sql import Queue, history, number


@pytest.fixture
def janitor(database: str) -> Iterator[Janitor]:
    pool = Database(as_node(database), size=1)
    yield Janitor(Upkeep(pool), history_days=7)
    pool.close()


def test_round_clears_what_a_purge_left_and_says_when_the_next_is_due(
    janitor: Janitor, owner: Connection
) -> None:
    orders = Queue(owner)
    orders.send("a", "b")
    orders.connection.execute("select skipmq.purge_queue(%s)", (orders.id,))

    pause = janitor.tick()

    assert history(orders.connection) == [("purged",)] * 2
    assert 0 < pause <= 1


def test_round_after_a_full_chunk_is_due_at_once(janitor: Janitor, owner: Connection) -> None:
    orders = Queue(owner)
    for _ in range(2):
        orders.send(*["x"] * (CHUNK // 2))
    orders.send("one more")
    orders.connection.execute("select skipmq.purge_queue(%s)", (orders.id,))

    pauses = [janitor.tick(), janitor.tick()]

    assert pauses[0] == 0
    assert pauses[1] > 0
    assert number(orders.connection, "select count(*) from skipmq.message where queue_id > 0") == 0


def test_round_settles_what_has_expired(janitor: Janitor, owner: Connection) -> None:
    Queue(owner, MessageRetentionPeriod=60).send("a")
    owner.execute(
        "update skipmq.message set visible_at = visible_at - interval '61 s',"
        " enqueued_at = enqueued_at - interval '61 s' where queue_id > 0"
    )

    janitor.tick()

    assert history(owner) == [("expired",)]


def test_round_makes_missing_partitions(janitor: Janitor, owner: Connection) -> None:
    day = number(owner, "select to_char(clock_timestamp() + interval '1 day', 'YYYYMMDD')")
    owner.execute(f"drop table skipmq.history_{day}")

    janitor.tick()

    assert number(owner, "select to_regclass(%s) is not null", f"skipmq.history_{day}")


def test_round_without_database_goes_on() -> None:
    pool = Database("postgresql://127.0.0.1:1/nowhere", size=1)
    janitor = Janitor(Upkeep(pool), history_days=7)

    assert 0 < janitor.tick() <= 1
    with pytest.raises(psycopg.OperationalError):
        pool.session()


def test_stop_ends_the_thread(janitor: Janitor) -> None:
    janitor.start()

    janitor.stop()

    assert janitor.tick() >= 0
