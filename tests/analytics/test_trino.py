"""The lake as Trino reads it."""

from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from skipmq.analytics.jdbc import Source
from skipmq.analytics.lake.export import export
from support import trino
from support.analytics import lake_rows, settle, written
from support.postgres import Connection

pytestmark = pytest.mark.slow

READ = "select id, xid, outcome, queue, message_id from lake.skipmq.history order by id, xid"


def test_trino_reads_the_same_rows(
    spark: SparkSession, source: Source, owner: Connection, tmp_path: Path
) -> None:
    place = str(tmp_path / "lake")
    written(spark, source, owner, place)
    with trino.running(tmp_path / "trino", tmp_path) as server:
        server.register("history", "lake/history")

        assert [tuple(row) for row in server.rows(READ)] == lake_rows(spark, place)
        # From the checkpoint that delta-rs writes every so many commits, and what came after it.
        table = DeltaTable(f"{place}/history")
        table.create_checkpoint()
        for commit in Path(place, "history/_delta_log").glob("*.json"):
            if int(commit.stem) < table.version():
                commit.unlink()
        settle(owner, 10, "mails")
        export(spark, source, place, compact=False)
        server.rows("call lake.system.flush_metadata_cache()")

        assert [tuple(row) for row in server.rows(READ)] == lake_rows(spark, place)
        assert server.rows("select count(*) from lake.skipmq.history where queue = 'mails'") == [
            [30]
        ]
