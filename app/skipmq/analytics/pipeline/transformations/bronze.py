"""Bronze: the rows of the lake, of which the pipeline keeps no copy."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from skipmq.analytics.spark import medallion


@dp.temporary_view
def bronze() -> DataFrame:
    """Return every message that the lake has, each row once."""
    return medallion.lake(SparkSession.active()).frame()
