"""The janitor's round, on a real database."""

from collections.abc import Iterator

import psycopg
import pytest
from structlog.testing import capture_logs

from skipmq.config import Settings
from skipmq.janitor import CHUNK, Janitor
from skipmq.store import Database, Upkeep
from support.postgres import Connection, as_node, as_reader
from support.sql import Queue, history, number


@pytest.fixture
def janitor(database: str) -> Iterator[Janitor]:
    pool = Database(as_node(database), size=1)
    yield Janitor(Upkeep(pool), Settings())
    pool.close()


@pytest.fixture
def stopwatch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have rounds take no time by Python's clock, so that a pause is as long as is meant."""
    monkeypatch.setattr("skipmq.janitor.monotonic", lambda: 1.0)


@pytest.mark.usefixtures("stopwatch")
def test_round_clears_what_a_purge_left_and_says_when_the_next_is_due(
    janitor: Janitor, owner: Connection
) -> None:
    orders = Queue(owner)
    orders.send("a", "b")
    orders.connection.execute("select skipmq.purge_queue(%s)", (orders.id,))

    pause = janitor.tick()

    assert history(orders.connection) == [("purged",)] * 2
    assert pause == 1


@pytest.mark.usefixtures("stopwatch")
def test_round_after_a_full_chunk_is_due_at_once(janitor: Janitor, owner: Connection) -> None:
    orders = Queue(owner)
    for _ in range(2):
        orders.send(*["x"] * (CHUNK // 2))
    orders.send("one more")
    orders.connection.execute("select skipmq.purge_queue(%s)", (orders.id,))

    pauses = [janitor.tick(), janitor.tick()]

    assert pauses == [0, 1]
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


@pytest.mark.usefixtures("stopwatch")
def test_round_without_database_goes_on() -> None:
    pool = Database("postgresql://127.0.0.1:1/nowhere", size=1)
    janitor = Janitor(Upkeep(pool), Settings())

    assert janitor.tick() == 1
    with pytest.raises(psycopg.OperationalError):
        pool.session()


def test_stop_ends_the_thread(janitor: Janitor) -> None:
    janitor.start()

    janitor.stop()

    assert janitor.tick() >= 0


def test_round_ends_a_reader_that_holds_up_the_database_and_says_so(
    database: str, owner: Connection
) -> None:
    pool = Database(as_node(database), size=1)
    janitor = Janitor(Upkeep(pool), Settings(snapshot_limit=0.001))
    with psycopg.connect(as_reader(database), application_name="notebook") as reader:
        reader.execute("set transaction isolation level repeatable read")
        reader.execute("select count(*) from skipmq_views.queue")

        with capture_logs() as told:
            janitor.tick()

        with pytest.raises(psycopg.OperationalError):
            reader.execute("select 1")
    pool.close()
    (said,) = [line for line in told if "snapshot" in line["event"]]
    assert (said["role"], said["application"]) == ("skipmq_reader", "notebook")
    assert said["limit"] == 0.001
    assert number(owner, "select 1") == 1


def test_upkeep_that_may_end_no_reader_says_each_remedy_once(
    database: str, owner: Connection
) -> None:
    owner.execute("create role stranger")
    owner.execute("create role grafana login in role skipmq_reader")
    owner.execute("alter function skipmq.end_long_snapshots(interval) owner to stranger")
    pool = Database(as_node(database), size=1)
    upkeep = Upkeep(pool)
    with psycopg.connect(as_reader(database)), capture_logs() as told:
        ended = [upkeep.end_long_snapshots(1) for _ in range(2)]
        with psycopg.connect(as_reader(database).replace("skipmq_reader@", "grafana@")):
            ended += [upkeep.end_long_snapshots(1) for _ in range(2)]
        ended += [upkeep.end_long_snapshots(1)]
    pool.close()
    owner.execute("reassign owned by stranger to current_user")
    owner.execute("drop role stranger")
    owner.execute("drop role grafana")

    assert ended == [0] * 5
    assert [line["remedy"] for line in told] == [
        "grant skipmq_reader to stranger",
        "grant grafana, skipmq_reader to stranger",
    ]


def test_round_with_an_archive_drops_no_day_that_it_lacks(database: str, owner: Connection) -> None:
    owner.execute("create table skipmq.history_20200101 (like skipmq.history including all)")
    owner.execute(
        "alter table skipmq.history attach partition skipmq.history_20200101"
        " for values from ('2020-01-01 00:00+00') to ('2020-01-02 00:00+00')"
    )
    there = "select to_regclass('skipmq.history_20200101') is not null"
    pool = Database(as_node(database), size=1)

    Janitor(Upkeep(pool), Settings(archive="lake")).tick()
    assert number(owner, there)
    assert number(owner, "select skipmq.record_archived_day('2020-01-01', 0, 0)")
    Janitor(Upkeep(pool), Settings(archive="lake")).tick()

    pool.close()
    assert not number(owner, there)
