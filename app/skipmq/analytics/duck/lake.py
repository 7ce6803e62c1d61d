"""A lake in a folder of this machine as frames that DuckDB computes."""

from collections.abc import Sequence
from datetime import datetime

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from skipmq.analytics import queue_settings
from skipmq.analytics.columns import HISTORY
from skipmq.analytics.delta import SCHEMA, Table
from skipmq.analytics.duck.expressions import quoted, text
from skipmq.analytics.duck.session import Duck


def history(duck: Duck, table: Table, since: datetime, queues: Sequence[str] = ()) -> DataFrame:
    """Read what a lake has of what was settled since a moment, as Spark does."""
    folder = table.url.removeprefix("file://")
    paths = [f"{folder}/{file.path}" for file in table.within(since, queues)]
    duck.connection.register("nothing", SCHEMA.empty_table())
    if paths:
        listed = ", ".join(map(text, paths))
        names = ", ".join(map(quoted, HISTORY.names))
        # A column that no file has is null: of the empty table's type.
        duck.connection.execute(
            f"create temp view history as select {names} from (from nothing union all by name from"
            f" read_parquet([{listed}], union_by_name = true, hive_partitioning = true,"
            " hive_types = {'day': date, 'queue': varchar}))"
        )
    else:
        duck.connection.execute("create temp view history as from nothing")
    return duck.spark.table("history").where(fn.col("settled_at") >= fn.lit(since))


def queues(duck: Duck, settings: pa.Table) -> DataFrame:
    """Return what reports want of the queues' settings."""
    duck.connection.register("queues", settings.select(queue_settings.TIMEOUTS))
    return duck.spark.table("queues")
