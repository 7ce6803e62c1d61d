"""Bronze, silver and gold, and the database's counters, which their rows are compared with."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from skipmq.analytics import reports
from skipmq.analytics.reports.period import HOUR
from skipmq.analytics.spark import medallion

_HOURLY = {"step": reports.micros(HOUR)}


@dp.temporary_view
def bronze() -> DataFrame:
    """Return every message that the lake has, each row once; the pipeline keeps no copy of them."""
    return medallion.lake(SparkSession.active()).frame()


@dp.temporary_view
def silver() -> DataFrame:
    """Return a row for each message in each queue, with its whole life."""
    return reports.message(SparkSession.active().read.table("bronze"))


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


@dp.temporary_view
def counters() -> DataFrame:
    """Return what the database has counted."""
    return medallion.counted(SparkSession.active())
