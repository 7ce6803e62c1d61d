"""A lake in a local folder as DataFrames that DuckDB executes."""

from collections.abc import Sequence
from datetime import datetime

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from skipmq.analytics import queue_settings
from skipmq.analytics.columns import HISTORY
from skipmq.analytics.delta import SCHEMA, Table
from skipmq.analytics.duck.expressions import quoted, text
from skipmq.analytics.duck.session import DuckSession


def history(
    duck: DuckSession, table: Table, since: datetime, queues: Sequence[str] = ()
) -> DataFrame:
    """Read the messages settled since a time from a lake, with the same rows as Spark reads."""
    folder = table.url.removeprefix("file://")
    paths = [f"{folder}/{file.path}" for file in table.within(since, queues)]
    duck.connection.register("nothing", SCHEMA.empty_table())
    if paths:
        listed = ", ".join(map(text, paths))
        names = ", ".join(map(quoted, HISTORY.names))
        # The empty table determines the types of columns that no file has.
        duck.connection.execute(
            f"create temp view history as select {names} from (from nothing union all by name from"
            f" read_parquet([{listed}], union_by_name = true, hive_partitioning = true,"
            " hive_types = {'day': date, 'queue': varchar}))"
        )
    else:
        duck.connection.execute("create temp view history as from nothing")
    return duck.spark.table("history").where(fn.col("settled_at") >= fn.lit(since))


def queues(duck: DuckSession, settings: pa.Table) -> DataFrame:
    """Return the queue settings that reports use."""
    duck.connection.register("queues", settings.select(queue_settings.TIMEOUTS))
    return duck.spark.table("queues")
