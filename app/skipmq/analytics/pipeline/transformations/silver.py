"""Silver: a row for each message in each queue, with its whole life."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from skipmq.analytics import reports


@dp.table
def silver() -> DataFrame:
    """Return the settled messages since the last run, and when dead letters were moved.

    A dead letter is moved by a transaction before the one that settles it in its dead-letter queue,
    so that bronze has the move.
    """
    spark = SparkSession.active()
    moves = reports.query("moves", {"history": spark.read.table("bronze")}, None)
    return reports.lives(spark.readStream.table("bronze"), moves)
