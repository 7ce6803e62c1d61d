"""The rows of bronze and silver by queue and outcome, next to the database's counters."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from skipmq.analytics.spark import medallion


@dp.temporary_view
def counters() -> DataFrame:
    """Return what the database has counted."""
    return medallion.counted(SparkSession.active())
