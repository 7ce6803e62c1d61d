"""The hourly tables of the reports, made from the lake that SKIPMQ_ARCHIVE names."""

from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from skipmq import config
from skipmq.analytics import manifest, reports
from skipmq.analytics.columns import HISTORY
from skipmq.analytics.storage import FolderStorage

_DATA = "history"


# No view of the pipeline: Spark Connect analyses what is defined at once, before there are views.
def _history() -> DataFrame:
    """Read the files that the lake's manifest lists; on other file systems, all that are there."""
    spark = SparkSession.active()
    lake = config.load().settings.archive
    paths = [f"{lake}/{_DATA}"]
    if "://" not in lake:
        state, _ = manifest.load(FolderStorage(Path(lake)))
        paths = [f"{lake}/{_DATA}/{path}" for path in sorted(state.files)]
    if not paths:
        return spark.createDataFrame([], HISTORY)
    reading = spark.read.schema(HISTORY).option("basePath", f"{lake}/{_DATA}")
    return reading.parquet(*paths)


@dp.materialized_view
def hourly_latency() -> DataFrame:
    """Give percentiles of the latencies by queue and hour."""
    return reports.latency(_history())


@dp.materialized_view
def hourly_traffic() -> DataFrame:
    """Give messages, bytes and sizes by queue and hour."""
    return reports.traffic(_history())


@dp.materialized_view
def hourly_consumers() -> DataFrame:
    """Give what was deleted through each node by queue and hour."""
    return reports.consumers(_history())
