"""Silver: a row for each message in each queue, with its whole life."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from skipmq.analytics import reports


@dp.temporary_view
def silver() -> DataFrame:
    """Return the messages of the lake, and when dead letters were moved."""
    return reports.message(SparkSession.active().read.table("bronze"))
