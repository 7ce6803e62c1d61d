"""Drivers that send and are killed by kill -9, with their tasks."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from support import trees
from support.analytics import SHORT_LIVED
from support.http import eventually
from support.postgres import Connection
from support.processes import until_gone
from support.sql import Queue, is_blocked, number
from support.staging import staged

pytest.importorskip("pyspark")

ROWS, FILES = 5000, 3
# The first chunk of a task, and the lock for which the row after some of the second waits.
CHUNK, LOCK = 500, 7
HOLD = """
create function public.hold() returns trigger language plpgsql as
  $$ begin perform pg_advisory_xact_lock(7); return new; end $$;
create trigger hold before insert on skipmq.staged_message
  for each row when ((new.place & 1099511627775) = 700) execute function public.hold()
"""
PATIENCE = 300
DRIVER = """
import sys
from skipmq.analytics.spark import session
from skipmq.config.settings import Settings
url, place = sys.argv[1:]
spark = session.start(Settings(spark_master="local[1]"))
lines = spark.readStream.option("maxFilesPerTrigger", 1).text(f"{place}/in").toDF("body")
query = (
    lines.writeStream.format("skipmq").options(url=url, queue="orders")
    .option("checkpointLocation", f"{place}/checkpoint").trigger(availableNow=True).start()
)
query.awaitTermination()
"""


class Driver:
    """A query that sends the files of a folder, in a process of its own."""

    def __init__(self, url: str, place: Path) -> None:
        self._log = place / "log"
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-c", DRIVER, url, str(place)],
                env=os.environ | {"PYSPARK_SUBMIT_ARGS": SHORT_LIVED},  # noqa: TID251
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def kill(self) -> None:
        """Kill the driver, its JVM and its tasks."""
        dying = trees.trees([self._process.pid])
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for each in dying:
            until_gone(each.pid)

    def finish(self) -> None:
        assert self._process.wait(PATIENCE) == 0, self._log.read_text()


def sent(owner: Connection, queue: Queue) -> list[int]:
    rows = owner.execute(
        "select body::int from skipmq.message where queue_id = %s order by 1", (queue.id,)
    ).fetchall()
    return [body for (body,) in rows]


def gone(owner: Connection) -> None:
    """Wait until the server has noticed that the driver is."""
    query = "select count(*) from pg_stat_activity where application_name = 'skipmq spark'"
    eventually(lambda: not number(owner, query))


@pytest.mark.slow
def test_stream_killed_at_each_step_sends_each_row_once(
    database: str, owner: Connection, tmp_path: Path
) -> None:
    orders = Queue(owner)
    (tmp_path / "in").mkdir()
    for file in range(FILES):
        lines = (str(n) for n in range(file * ROWS, (file + 1) * ROWS))
        (tmp_path / "in" / str(file)).write_text("\n".join(lines))

    # While a task stages.
    owner.execute(HOLD)
    with psycopg.connect(database) as other:
        other.execute("select pg_advisory_lock(%s)", (LOCK,))
        driver = Driver(database, tmp_path)
        eventually(lambda: is_blocked(owner), PATIENCE)
        driver.kill()
    gone(owner)
    owner.execute("drop trigger hold on skipmq.staged_message")
    # The server may finish the statement of a client that is gone.
    half = staged(owner)
    assert half in {CHUNK, 2 * CHUNK}
    assert sent(owner, orders) == []

    # While the driver sends.
    with psycopg.connect(database) as other:
        other.execute("lock table skipmq.message in share mode")
        driver = Driver(database, tmp_path)
        eventually(lambda: is_blocked(owner), PATIENCE)
        driver.kill()
    gone(owner)
    assert staged(owner) == half + ROWS
    assert sent(owner, orders) == []

    # When it has sent, and Spark may know it or not.
    driver = Driver(database, tmp_path)
    eventually(lambda: sent(owner, orders), PATIENCE)
    driver.kill()
    gone(owner)

    Driver(database, tmp_path).finish()

    assert sent(owner, orders) == list(range(FILES * ROWS))
    assert number(owner, "select batch from skipmq.staged_batch") == FILES - 1
