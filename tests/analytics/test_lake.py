"""The lake as others see it, one of the older form, and days that are not kept any more."""

from datetime import timedelta
from pathlib import Path

import duckdb
import polars as pl
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from skipmq.analytics import delta, frames
from skipmq.analytics.jdbc import Source
from skipmq.analytics.lake.export import export
from skipmq.analytics.lake.tables import Lake
from skipmq.analytics.spark import spark_errors
from support.analytics import age, lake_rows, rows_of, settle, written
from support.lakes import damage_footer
from support.postgres import Connection

READ = "select id, xid, outcome, queue, message_id, day from history order by id, xid"


def test_other_programs_read_the_same_rows(
    spark: SparkSession, source: Source, owner: Connection, place: str
) -> None:
    written(spark, source, owner, place)

    frames.lake(spark, place).createOrReplaceTempView("history")
    wanted = [tuple(row) for row in spark.sql(READ).collect()]
    history = DeltaTable(f"{place}/history").to_pyarrow_dataset()
    by_duckdb = duckdb.sql(READ).fetchall()
    filtered = duckdb.sql("select count(*) from history where outcome in ('deleted', 'expired')")
    by_polars = pl.SQLContext(history=pl.scan_delta(f"{place}/history")).execute(READ)

    assert len(wanted) == 48
    assert by_duckdb == wanted
    ends = {"deleted", "expired"}
    assert filtered.fetchall() == [(sum(row[2] in ends for row in wanted),)]
    assert by_polars.collect().rows() == wanted
    assert history.schema.names == delta.SCHEMA.names


def test_days_are_kept_for_as_long_as_is_said_and_the_database_has_them(
    spark: SparkSession, source: Source, owner: Connection, place: str
) -> None:
    settle(owner, 20)
    age(owner, 10)
    settle(owner, 5)

    first = export(spark, source, place, keep=3)
    owner.execute("select skipmq.drop_history_partitions('7 days', false)")
    second = export(spark, source, place, keep=3)

    assert (first.expired, second.expired) == (0, 20)
    assert lake_rows(spark, place) == rows_of(owner)
    assert len(rows_of(owner)) == 5


def test_who_reads_a_version_reads_it_to_its_end_while_others_write(
    spark: SparkSession, source: Source, owner: Connection, place: str
) -> None:
    for _ in range(2):
        settle(owner, 10)
        export(spark, source, place, compact=False)
    begun = frames.lake(spark, place)
    settle(owner, 10)
    more = export(spark, source, place, compact=False)
    lake = Lake.open(spark, place)
    fewer, _ = lake.compact(before=lake.files[0].day + timedelta(days=1))
    lake.clear()

    assert (more.rows, fewer) == (10, 2)
    assert begun.count() == 20
    assert frames.lake(spark, place).count() == 30


def test_file_that_is_missing_or_damaged_is_named_with_the_remedy(
    spark: SparkSession, source: Source, owner: Connection, place: str
) -> None:
    settle(owner, 10)
    export(spark, source, place)
    found = frames.lake(spark, place)
    (file,) = (Path(place) / "history").rglob("*.parquet")
    texts = []
    for damage in (lambda: damage_footer(file), file.unlink):
        damage()
        for read in (found.count, lambda: frames.lake(spark, place).count()):
            with pytest.raises(Exception, match="parquet") as raised:
                read()
            texts.append(str(spark_errors.explain(raised.value)))

    remedy = "of the lake is {}: check the lake with `skipmq analytics verify"
    for text, kind in zip(texts, ["damaged"] * 2 + ["missing"] * 2, strict=True):
        assert f"{file.name} {remedy.format(kind)}" in text
