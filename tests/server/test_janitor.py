"""The janitor's round, on a real database."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
import pytest
from structlog.testing import capture_logs

from skipmq.broker.upkeep import CHUNK
from skipmq.config.settings import Settings
from skipmq.database.partitions import Database
from skipmq.database.pool import Pool
from skipmq.server.processes.janitor import Janitor, listen_for_tasks
from skipmq.telemetry.metrics import Observer
from support.loop import eventually
from support.postgres import Connection, as_node, as_reader
from support.sql import Queue, Redrive, history, number

QUEUE_ID = "select queue_id from skipmq.queue where name = 'orders'"


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Pool]:
    """Connect to a database with a node's rights."""
    pool = Pool(as_node(url), size=1)
    try:
        yield pool
    finally:
        pool.close()


async def tick(url: str, settings: Settings | None = None) -> float:
    """Have a janitor make one round; return the seconds until the next."""
    async with connected(url) as pool:
        return await Janitor(pool, settings or Settings()).tick()


class Shown(Observer):
    """What is shown of each state."""

    def __init__(self) -> None:
        self.states: dict[str, dict[tuple[str, ...], float]] = {}

    def show(self, state: str, value: float, labels: tuple[str, ...] = ()) -> None:
        self.states.setdefault(state, {})[labels] = value

    def forget(self, state: str) -> None:
        self.states.pop(state, None)


def test_transaction_that_stays_open_is_shown_by_the_name_of_its_session(database: str) -> None:
    async def rounds() -> tuple[Shown, str | None]:
        shown = Shown()
        async with connected(database) as pool:
            await Janitor(pool, Settings(), shown).tick()
            assert "snapshot holder" not in shown.states
            await Janitor(pool, Settings(), shown, named_after=0.0).tick()
            ((session,),) = owner.execute("select session from skipmq.oldest_snapshot()").fetchall()
        return shown, session

    named = psycopg.conninfo.make_conninfo(database, application_name="forgotten job")
    with (
        psycopg.connect(database, autocommit=True) as owner,
        psycopg.connect(named) as holder,
    ):
        holder.execute("select pg_current_xact_id()")
        shown, session = asyncio.run(rounds())

    ((labels, seconds),) = shown.states["snapshot holder"].items()
    assert labels == (session,)
    assert seconds > 0


@pytest.fixture
def stopwatch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have rounds take no time by Python's clock, so that a pause is as long as is meant."""
    monkeypatch.setattr("skipmq.server.processes.janitor.monotonic", lambda: 1.0)


@pytest.mark.usefixtures("stopwatch")
async def test_round_clears_what_a_purge_left_and_returns_when_the_next_is_due(
    database: str, owner: Connection
) -> None:
    orders = Queue(owner)
    orders.send("a", "b")
    orders.connection.execute("select skipmq.purge_queue(%s)", (orders.id,))

    pause = await tick(database)

    assert history(orders.connection) == [("purged",)] * 2
    assert pause == 1


@pytest.mark.usefixtures("stopwatch")
async def test_round_after_a_full_chunk_is_due_at_once(database: str, owner: Connection) -> None:
    orders = Queue(owner)
    for _ in range(2):
        orders.send(*["x"] * (CHUNK // 2))
    orders.send("one more")
    orders.connection.execute("select skipmq.purge_queue(%s)", (orders.id,))

    async with connected(database) as pool:
        janitor = Janitor(pool, Settings())
        pauses = [await janitor.tick() for _ in range(2)]

    assert pauses == [0, 1]
    assert number(orders.connection, "select count(*) from skipmq.message where queue_id > 0") == 0


async def test_round_settles_what_has_expired(database: str, owner: Connection) -> None:
    Queue(owner, MessageRetentionPeriod=60).send("a")
    owner.execute(
        "update skipmq.message set visible_at = visible_at - interval '61 s',"
        " enqueued_at = enqueued_at - interval '61 s' where queue_id > 0"
    )

    await tick(database)

    assert history(owner) == [("expired",)]


async def test_round_makes_missing_partitions(database: str, owner: Connection) -> None:
    day = number(owner, "select to_char(clock_timestamp() + interval '1 day', 'YYYYMMDD')")
    owner.execute(f"drop table skipmq.history_{day}")

    await tick(database)

    assert number(owner, "select to_regclass(%s) is not null", f"skipmq.history_{day}")


@pytest.mark.usefixtures("stopwatch")
async def test_first_round_of_a_node_does_what_is_urgent(database: str, owner: Connection) -> None:
    day = number(owner, "select to_char(clock_timestamp() + interval '1 day', 'YYYYMMDD')")
    owner.execute(f"drop table skipmq.history_{day}")
    orders = Queue(owner)
    orders.send("a")
    owner.execute("select skipmq.purge_queue(%s)", (orders.id,))

    async with connected(database) as pool:
        janitor = Janitor(pool, Settings())
        janitor.postpone()
        pause = await janitor.tick()

    assert number(owner, "select to_regclass(%s) is not null", f"skipmq.history_{day}")
    assert history(owner) == []
    assert pause == 1


@pytest.mark.usefixtures("stopwatch")
async def test_round_without_database_goes_on() -> None:
    pool = Pool("postgresql://127.0.0.1:1/nowhere", size=1)
    janitor = Janitor(pool, Settings())

    assert await janitor.tick() == 1
    with pytest.raises(psycopg.OperationalError):
        await pool.session()
    pool.close()


async def test_janitor_makes_rounds_until_it_is_cancelled(database: str, owner: Connection) -> None:
    orders = Queue(owner)
    async with connected(database) as pool:
        janitor = Janitor(pool, Settings())
        running = asyncio.create_task(janitor.run())
        for n in range(1, 3):
            orders.id = number(owner, QUEUE_ID)  # A purge gives it another.
            orders.send("a")
            owner.execute("select skipmq.purge_queue(%s, '0')", (orders.id,))
            await eventually(lambda n=n: len(history(owner)) == n, why=f"round {n}")

        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

        assert await janitor.tick() >= 0


async def test_round_ends_a_reader_that_holds_up_the_database_and_logs_it(
    database: str, owner: Connection
) -> None:
    with psycopg.connect(as_reader(database), application_name="notebook") as reader:
        reader.execute("set transaction isolation level repeatable read")
        reader.execute("select count(*) from skipmq_views.queue")

        with capture_logs() as lines:
            await tick(database, Settings(snapshot_limit=0.001))

        with pytest.raises(psycopg.OperationalError):
            reader.execute("select 1")
    (line,) = [line for line in lines if "snapshot" in line["event"]]
    assert (line["role"], line["application"]) == ("skipmq_reader", "notebook")
    assert line["limit"] == 0.001
    assert number(owner, "select 1") == 1


async def test_upkeep_that_may_end_no_reader_logs_each_remedy_once(
    database: str, owner: Connection
) -> None:
    owner.execute("create role stranger")
    owner.execute("create role grafana login in role skipmq_reader")
    owner.execute("alter function skipmq.end_long_snapshots(interval) owner to stranger")
    async with connected(database) as pool:
        janitor = Janitor(pool, Settings())
        with psycopg.connect(as_reader(database)), capture_logs() as lines:
            ended = [await janitor.end_long_snapshots(1) for _ in range(2)]
            with psycopg.connect(as_reader(database).replace("skipmq_reader@", "grafana@")):
                ended += [await janitor.end_long_snapshots(1) for _ in range(2)]
            ended += [await janitor.end_long_snapshots(1)]
    owner.execute("reassign owned by stranger to current_user")
    owner.execute("drop role stranger")
    owner.execute("drop role grafana")

    assert ended == [0] * 5
    assert [line["remedy"] for line in lines] == [
        "grant skipmq_reader to stranger",
        "grant grafana, skipmq_reader to stranger",
    ]


async def test_round_with_an_archive_drops_no_day_that_it_lacks(
    database: str, owner: Connection
) -> None:
    owner.execute("create table skipmq.history_20200101 (like skipmq.history including all)")
    owner.execute(
        "alter table skipmq.history attach partition skipmq.history_20200101"
        " for values from ('2020-01-01 00:00+00') to ('2020-01-02 00:00+00')"
    )
    there = "select to_regclass('skipmq.history_20200101') is not null"

    await tick(database, Settings(archive="lake"))
    assert number(owner, there)
    assert number(owner, "select skipmq.record_archived_day('2020-01-01', 0, 0)")
    await tick(database, Settings(archive="lake"))

    assert not number(owner, there)


@pytest.mark.usefixtures("stopwatch")
async def test_task_that_is_started_is_continued_before_the_next_round(
    database: str, owner: Connection
) -> None:
    """By the stopwatch no next round is due."""
    redrive = Redrive(owner, 2)
    listened = Database(as_node(database), size=1)
    janitor = Janitor(listened.pool, Settings())
    await janitor.tick()
    running = [
        asyncio.create_task(part)
        for part in (janitor.run(), listen_for_tasks(listened, janitor.wake))
    ]
    status = "select status from skipmq.move_task order by started_at desc limit 1"
    try:
        redrive.start()
        await eventually(lambda: number(owner, status) == "COMPLETED")
        second = redrive.start(rate=1)
        owner.execute("select skipmq.cancel_move_task(%s)", (second,))
        await eventually(lambda: number(owner, status) != "CANCELLING")
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        listened.close()
