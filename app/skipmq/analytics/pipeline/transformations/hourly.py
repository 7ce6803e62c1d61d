"""The hourly tables of the reports, made from the lake that SKIPMQ_ARCHIVE names."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from skipmq import config
from skipmq.analytics import delta, lake, reports


# No view of the pipeline: Spark Connect analyses what is defined at once, before there are views.
def _history() -> DataFrame:
    """Read the files that belong to the lake."""
    place = delta.url_of(config.load().settings.archive)
    return lake.read(SparkSession.active(), delta.Table(f"{place}/{delta.NAME}"))


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
