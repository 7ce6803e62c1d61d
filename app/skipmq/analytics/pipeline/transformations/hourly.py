"""The hourly tables of the reports, from the lake in SKIPMQ_ARCHIVE."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from skipmq import config
from skipmq.analytics import delta, lake, reports


# Not a view of the pipeline, because Spark Connect analyses definitions before views exist.
def _history() -> DataFrame:
    url = delta.url_of(config.load().settings.archive)
    return lake.read(SparkSession.active(), delta.Table(f"{url}/{delta.NAME}"))


@dp.materialized_view
def hourly_latency() -> DataFrame:
    """Return percentiles of the latencies by queue and hour."""
    return reports.latency(_history())


@dp.materialized_view
def hourly_traffic() -> DataFrame:
    """Return messages, bytes and sizes by queue and hour."""
    return reports.traffic(_history())


@dp.materialized_view
def hourly_consumers() -> DataFrame:
    """Return the messages deleted through each node by queue and hour."""
    return reports.consumers(_history())
