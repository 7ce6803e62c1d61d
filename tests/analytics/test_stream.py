"""The streaming source: each row once, within its limits."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from skipmq.analytics import frames
from skipmq.analytics.columns import HISTORY
from skipmq.analytics.jdbc import Source
from skipmq.analytics.spark.stream import Access, BatchReader
from skipmq.database import embedded
from support import standby
from support.analytics import FACTS, Writers, age, rows_of, settle
from support.postgres import Connection, Databases, as_reader
from support.sql import Queue, number


@pytest.fixture
def stream(spark: SparkSession) -> SparkSession:
    """Give Spark, which has to find the source by itself."""
    return spark


def drain(frame: DataFrame, place: Path) -> StreamingQuery:
    """Write all there is now to a folder, through a checkpoint next to it."""
    query = (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", str(place / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(place / "out"))
    )
    assert query.awaitTermination(120)
    return query


def written(spark: SparkSession, place: Path) -> list[tuple[Any, ...]]:
    found = spark.read.schema(HISTORY).parquet(str(place / "out"))
    return [tuple(row) for row in found.select(*FACTS.split(", ")).orderBy("id", "xid").collect()]


def test_stream_brings_what_is_settled_once_and_goes_on_where_it_stopped(
    stream: SparkSession, database: str, owner: Connection, tmp_path: Path
) -> None:
    frame = stream.readStream.format("skipmq").option("url", as_reader(database)).load()
    settle(owner, 20)
    drain(frame, tmp_path)
    settle(owner, 30, "mails")

    drain(frame, tmp_path)

    assert written(stream, tmp_path) == rows_of(owner)
    assert len(rows_of(owner)) == 50


def test_stream_keeps_to_its_limit_and_cuts_no_transaction(
    stream: SparkSession, database: str, owner: Connection, tmp_path: Path
) -> None:
    settle(owner, 100)
    big = Queue(owner, "big")
    for _ in range(4):
        big.send(*["x"] * 10)
    with owner.transaction():
        for _ in range(4):
            big.delete(*big.receive())
    options = {"url": as_reader(database), "maxRowsPerTrigger": "25"}
    frame = stream.readStream.format("skipmq").options(**options).load()

    query = drain(frame, tmp_path)

    sizes = [progress["numInputRows"] for progress in query.recentProgress]
    assert written(stream, tmp_path) == rows_of(owner)
    assert sum(sizes) == 140
    assert sorted(size for size in sizes if size)[-2:] == [20, 40]


def test_stream_while_four_write_and_commit_late_misses_and_doubles_nothing(
    stream: SparkSession, database: str, owner: Connection, tmp_path: Path
) -> None:
    options = {"url": as_reader(database), "maxRowsPerTrigger": "500"}
    frame = stream.readStream.format("skipmq").options(**options).load()
    with Writers(database):
        for _ in range(2):
            drain(frame, tmp_path)
    drain(frame, tmp_path)

    assert written(stream, tmp_path) == rows_of(owner)


def test_format_skipmq_reads_what_the_view_has(
    stream: SparkSession, source: Source, database: str, owner: Connection
) -> None:
    settle(owner, 20, HistoryMode="full")
    options = {"url": as_reader(database)}

    found = stream.read.format("skipmq").options(**options).load()

    assert sorted(map(str, found.collect())) == sorted(
        map(str, frames.history(stream, source, bodies=True).collect())
    )
    lean = stream.read.format("skipmq").options(**options, bodies="false").load()
    assert {row.body for row in lean.collect()} == {None}


def test_filter_reads_the_rows_that_match_it_and_no_others(
    stream: SparkSession, database: str, owner: Connection, tmp_path: Path
) -> None:
    settle(owner, 20, HistoryMode="full")
    settle(owner, 10, "mails")
    options = {"url": as_reader(database), "filter": "queue = 'mails' or body = 'body 7' -- or all"}
    access = Access.from_options(options)

    reader = BatchReader(access)
    read = sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part))
    found = stream.read.format("skipmq").options(**options).load()
    drain(stream.readStream.format("skipmq").options(**options).load(), tmp_path)

    # PySpark would remember filters that a source takes: filter a frame, and then not.
    counts = [found.count(), found.where("queue = 'mails'").count(), found.count()]
    assert (read, counts) == (11, [11, 10, 11])
    assert len(written(stream, tmp_path)) == 11


def test_filter_that_postgresql_refuses_is_named_in_the_error(
    stream: SparkSession, database: str, owner: Connection
) -> None:
    settle(owner, 10)
    frame = stream.read.format("skipmq").options(url=as_reader(database), filter="colour = 1")

    with pytest.raises(PySparkException, match='column "colour" does not exist'):
        frame.load().count()


def test_stream_that_begins_at_the_latest_brings_only_what_follows(
    stream: SparkSession, database: str, owner: Connection, tmp_path: Path
) -> None:
    settle(owner, 20)
    options = {"url": as_reader(database), "startingPosition": "latest"}
    frame = stream.readStream.format("skipmq").options(**options).load()
    drain(frame, tmp_path)
    settle(owner, 10)

    drain(frame, tmp_path)

    assert len(written(stream, tmp_path)) == 10


def reword(place: Path, **changes: Any) -> None:
    """Change what the offset of the last batch says."""
    last = max((place / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda file: int(file.name))
    head, _, offset = last.read_text().rpartition("\n")
    last.write_text(f"{head}\n{json.dumps(json.loads(offset) | changes)}")
    last.with_name(f".{last.name}.crc").unlink()


@pytest.mark.slow
def test_stream_on_another_timeline_has_duplicates_that_can_be_told_by_their_keys(
    stream: SparkSession, database: str, owner: Connection, tmp_path: Path
) -> None:
    frame = stream.readStream.format("skipmq").option("url", as_reader(database)).load()
    settle(owner, 20)
    age(owner, 1)
    drain(frame, tmp_path)
    reword(tmp_path, timeline=0, rows="of earlier versions")
    owner.execute("select pg_current_xact_id()")
    drain(frame, tmp_path)
    once = len(written(stream, tmp_path))
    settle(owner, 10)
    drain(frame, tmp_path)
    reword(tmp_path, timeline=0, rows="others")
    settle(owner, 10)
    drain(frame, tmp_path)

    found = stream.read.schema(HISTORY).parquet(str(tmp_path / "out"))
    assert (once, found.count()) == (20, 50)
    assert (
        found.dropDuplicates(["id", "outcome", "settled_at"]).count() == len(rows_of(owner)) == 40
    )


@pytest.mark.slow
def test_stream_on_another_timeline_that_has_the_last_batch_brings_nothing_twice(
    stream: SparkSession, database: str, owner: Connection, tmp_path: Path
) -> None:
    frame = stream.readStream.format("skipmq").option("url", as_reader(database)).load()
    settle(owner, 20)
    drain(frame, tmp_path)
    settle(owner, 10)
    drain(frame, tmp_path)
    reword(tmp_path, timeline=0)
    drain(frame, tmp_path)
    settle(owner, 10)
    drain(frame, tmp_path)

    assert written(stream, tmp_path) == rows_of(owner)


def test_stream_after_a_failover_that_undid_rows_brings_the_last_hour_again_and_misses_nothing(
    stream: SparkSession,
    embedded_databases: Databases,
    database: str,
    owner: Connection,
    public_folder: Path,
    tmp_path: Path,
) -> None:
    frame = stream.readStream.format("skipmq").option("url", as_reader(database)).load()
    settle(owner, 20)
    age(owner, 1)
    settle(owner, 30, "mails")
    old, seen = rows_of(owner)[:20], rows_of(owner)[20:]
    place = public_folder / "cut-off"
    standby.copy(embedded_databases.server.url, place)
    with (place / "postgresql" / "postgresql.auto.conf").open("a") as settings:
        settings.write("primary_conninfo = ''\n")
    settle(owner, 50, "undone")
    undone = rows_of(owner)[50:]
    drain(frame, tmp_path)

    with embedded.start(place) as server:
        url = Databases(server).url(psycopg.conninfo.conninfo_to_dict(database)["dbname"])
        with psycopg.connect(url, autocommit=True) as promoted:
            promoted.execute("select pg_promote()")
            settle(promoted, 40, "after")
            after = rows_of(promoted)[50:]
            # The query was away for two hours.
            ago = number(promoted, "select clock_timestamp() - interval '2 hours'")
            promoted.execute(
                "update skipmq.history set settled_at = settled_at - interval '2 hours'"
            )
            reword(tmp_path, at=ago.isoformat())
            frame = stream.readStream.format("skipmq").option("url", as_reader(url)).load()
            drain(frame, tmp_path)
            drain(frame, tmp_path)

    # Numbers of transactions were given out again.
    assert after[0][1] < undone[-1][1]
    assert Counter(written(stream, tmp_path)) == Counter(old + seen + seen + undone + after)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "the url is required"),
        ({"url": "postgresql://nowhere", "startingPosition": "middle"}, "earliest or latest"),
    ],
)
def test_wrong_options_are_refused_with_the_reason(
    stream: SparkSession, options: dict[str, str], message: str
) -> None:
    with pytest.raises(PySparkException, match=message):
        stream.read.format("skipmq").options(**options).load().count()
