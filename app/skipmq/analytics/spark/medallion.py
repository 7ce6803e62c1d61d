"""What the pipeline's definitions read: one version of the lake, and the database's counters."""

from contextlib import suppress
from functools import cache

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from skipmq import config
from skipmq.analytics import partitions
from skipmq.analytics.errors import AnalyticsError
from skipmq.analytics.lake.tables import Lake
from skipmq.analytics.postgres import counters, history
from skipmq.database import session

# Not as text, which Spark Connect would have parsed by the server, and definitions may not.
_COUNTERS = StructType(
    [
        *(StructField(n, StringType()) for n in ("account", "region", "queue")),
        StructField("queue_id", LongType()),
        StructField("outcome", StringType()),
        StructField("since", TimestampType()),
        *(StructField(n, LongType()) for n in ("horizon", "counted", "unread", "erased")),
    ]
)


@cache
def lake(spark: SparkSession) -> Lake:
    """Open the lake, of which a run reads one version; raise AnalyticsError if there is none."""
    path = config.load().settings.archive
    if not path:
        raise AnalyticsError("no lake is configured: set SKIPMQ_ARCHIVE")
    return Lake.open(spark, path)


def counted(spark: SparkSession) -> DataFrame:
    """Return the counters of each database, as `counters.settled` does.

    Those of a partition that is unavailable are left out. Raises AnalyticsError if no database is
    configured.
    """
    settings, table = config.load().settings, lake(spark).table
    url = settings.analytics_url or settings.database_url
    if not url:
        raise AnalyticsError("no database is configured: set SKIPMQ_DATABASE_URL")
    numbers = {identifier: number for number, identifier in table.databases.items()}
    rows = []
    for each in partitions.urls(url):
        with suppress(session.Unavailable), session.connect(each, "skipmq pipeline") as connection:
            number = numbers.get(history.server(connection).database)
            position = 0 if number is None else table.position(number)
            rows += counters.settled(connection, position, table.expired)
    return spark.createDataFrame([tuple(row.values()) for row in rows], _COUNTERS)
