"""Bronze: the rows of the history as they come from the database, only appended."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from skipmq.analytics.spark import medallion


@dp.table
def bronze() -> DataFrame:
    """Return every settled message since the last run, each row once."""
    return medallion.stream(SparkSession.active())
