"""Histories to read, and those who write them while they are read."""

import random
import re
import threading
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import psycopg

from support.postgres import Connection
from support.sql import Queue, number

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skipmq.analytics.jdbc import Source

# PYSPARK_SUBMIT_ARGS of a JVM that lives for some minutes and has a few rows: it would compile for
# longer than what that saves. Without the second compiler the cache of code is small: it would be
# swept, and the same compiled again. Of the space of classes a small one would have the whole heap
# collected each time that it grows. To verify Spark's classes takes a fifth of its start.
SHORT_LIVED = (
    "--driver-memory 1g --driver-java-options '-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    " -XX:ReservedCodeCacheSize=240m -XX:MetaspaceSize=300m -XX:+UnlockDiagnosticVMOptions"
    " -XX:-BytecodeVerificationRemote'"
    " --conf spark.sql.codegen.wholeStage=false --conf spark.sql.codegen.factoryMode=NO_CODEGEN"
    " pyspark-shell"
)
# The timeline of the last window, in a commit.
TIMELINE = re.compile(r'("appId":"skipmq\.timeline/\d+","version":)1')
# What a test wants to know of a row.
FACTS = "id, xid, outcome, queue, message_id"


def settle(connection: Connection, count: int, name: str = "orders", **attributes: Any) -> Queue:
    """Send, receive and delete so many messages, ten at once."""
    queue = Queue(connection, name, **attributes)
    for begin in range(0, count, 10):
        queue.send(*(f"body {n}" for n in range(begin, min(begin + 10, count))))
        queue.delete(*queue.receive())
    return queue


def settle_copies(connection: Connection, first: int, count: int) -> None:
    """Settle so many more messages like the first one, in one transaction, numbered from `first`.

    So many as nobody would send one by one.
    """
    connection.execute(
        "insert into skipmq.history (settled_at, sent_at, first_received_at, xid, id, queue_id,"
        " receive_count, body_bytes, attribute_bytes, message_id, outcome)"
        " select clock_timestamp(), sent_at, first_received_at,"
        " pg_current_xact_id()::text::bigint, %s::bigint + n, queue_id, receive_count, body_bytes,"
        " attribute_bytes, gen_random_uuid(), outcome"
        " from (select * from skipmq.history order by id limit 1) h,"
        " generate_series(0, %s::int - 1) n",
        (first, count),
    )


def age(owner: Connection, days: int) -> None:
    """Move all history so many days back, to a partition of its own."""
    day = number(
        owner,
        "select (min(settled_at) at time zone 'UTC')::date - %s::int from skipmq.history",
        days,
    )
    name = f"history_{day:%Y%m%d}"
    if not number(owner, "select to_regclass(%s) is not null", f"skipmq.{name}"):
        owner.execute(f"create table skipmq.{name} (like skipmq.history including all)")
        owner.execute(
            f"alter table skipmq.history attach partition skipmq.{name}"
            f" for values from ('{day} 00:00+00') to ('{day} 24:00+00')"
        )
    owner.execute(
        "update skipmq.history set settled_at = settled_at - make_interval(days => %s)", (days,)
    )


def rows_of(connection: Connection) -> list[tuple[Any, ...]]:
    """Return the facts of the history, in the order of ids."""
    return connection.execute(
        f"select {FACTS} from skipmq_views.history order by id, xid"
    ).fetchall()


def all_rows(connections: Iterable[Connection]) -> list[tuple[Any, ...]]:
    """Return the facts of the history of several databases, in the order of `lake_rows`."""
    return sorted(row for connection in connections for row in rows_of(connection))


def lake_rows(spark: "SparkSession", place: str) -> list[tuple[Any, ...]]:
    """Return the facts of a lake's rows, in the order of `rows_of`."""
    from skipmq.analytics import frames  # noqa: PLC0415 - PySpark is an extra.

    found = frames.lake(spark, place).select(*FACTS.split(", ")).orderBy("id", "xid")
    return [tuple(row) for row in found.collect()]


def written(spark: "SparkSession", source: "Source", owner: Connection, place: str) -> None:
    """Make a lake of 48 rows by all that may happen to one: exports, a compaction, an erasure."""
    from skipmq.analytics.lake.export import export  # noqa: PLC0415 - PySpark is an extra.
    from skipmq.analytics.lake.tables import Lake  # noqa: PLC0415

    settle(owner, 20, HistoryMode="full")
    export(spark, source, place, compact=False)
    settle(owner, 10)
    settle(owner, 10, "mails")
    export(spark, source, place, compact=False)
    lake = Lake.open(spark, place)
    lake.compact(before=lake.files[0].day + timedelta(days=1))
    lake.erase("body = 'body 7'", reason="test")
    settle(owner, 10, "mails")
    export(spark, source, place, compact=False)


def promote(place: str) -> None:
    """Let a lake have been written before the server's timeline began."""
    for file in (Path(place) / "history" / "_delta_log").glob("*.json"):
        text = file.read_text().replace('\\"timeline\\": 1', '\\"timeline\\": 0')
        file.write_text(TIMELINE.sub(r"\g<1>0", text))


class Writers:
    """Threads that send, receive and delete, each in transactions of its own, some committed late.

    One in four waits up to `late` seconds before it commits, so that neither ids nor numbers of
    transactions are in the order of commits.
    """

    def __init__(self, url: str, count: int = 4, late: float = 1.5) -> None:
        self._url = url
        self._late = late
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._write, args=(seed,), daemon=True) for seed in range(count)
        ]
        self.errors: list[BaseException] = []

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
        assert self.errors == []

    def _write(self, seed: int) -> None:
        chance = random.Random(seed)  # noqa: S311 - no secret.
        try:
            with psycopg.connect(self._url, application_name=f"skipmq {seed}-test") as connection:
                queue = Queue(connection, f"queue-{seed % 2}")
                connection.commit()
                while not self._over.is_set():
                    queue.send(*(f"{n}" * chance.randrange(1, 50) for n in range(10)))
                    connection.commit()
                    received = queue.receive()
                    connection.commit()
                    queue.delete(*received)
                    if chance.random() < 0.25:
                        self._over.wait(chance.random() * self._late)
                    connection.commit()
                    # Their rows are read one by one in the end, and Spark wants the processors too.
                    self._over.wait(0.1)
        except BaseException as error:
            self.errors.append(error)
            raise
