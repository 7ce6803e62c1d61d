"""Gold: the hourly tables of the reports."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from skipmq.analytics import reports
from skipmq.analytics.reports.period import HOUR

_HOURLY = {"step": reports.micros(HOUR)}


def _silver() -> DataFrame:
    return SparkSession.active().read.table("silver")


@dp.materialized_view
def hourly_latency() -> DataFrame:
    """Return percentiles of the latencies by queue and hour."""
    return reports.query("latency", {"settled": _silver()}, _HOURLY)


@dp.materialized_view
def hourly_traffic() -> DataFrame:
    """Return messages, bytes and sizes by queue and hour."""
    return reports.query("traffic", {"active": _silver()}, _HOURLY)


@dp.materialized_view
def hourly_consumers() -> DataFrame:
    """Return the messages deleted through each node by queue and hour."""
    return reports.query("consumers", {"settled": _silver()}, _HOURLY)
