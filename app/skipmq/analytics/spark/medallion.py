"""What the pipeline's definitions read: the live stream, and the database's counters.

A run defines its datasets before it starts, so that the counters are older than all rows of bronze
that the run adds: these are complete below the counters' horizon.
"""

from contextlib import suppress

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
from skipmq.analytics.postgres import counters
from skipmq.database import session

# Settings of the pipeline, in the configuration of spark-pipeline.yml.
_ROWS, _BODIES = "spark.skipmq.rows", "spark.skipmq.bodies"
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


def stream(spark: SparkSession) -> DataFrame:
    """Return the history as it grows; raise AnalyticsError if no database is configured."""
    options = {
        "url": _url(),
        "maxRowsPerTrigger": spark.conf.get(_ROWS, "500000"),
        "bodies": spark.conf.get(_BODIES, "true"),
    }
    return spark.readStream.format("skipmq").options(**options).load()


def counted(spark: SparkSession) -> DataFrame:
    """Return the counters of each database, as `counters.settled` does; raise like `stream`.

    Those of a partition that is unavailable are left out.
    """
    rows = []
    for url in partitions.urls(_url()):
        with suppress(session.Unavailable), session.connect(url, "skipmq pipeline") as connection:
            rows += counters.settled(connection)
    return spark.createDataFrame([tuple(row.values()) for row in rows], _COUNTERS)


def _url() -> str:
    settings = config.load().settings
    url = settings.analytics_url or settings.database_url
    if not url:
        raise AnalyticsError("no database is configured: set SKIPMQ_DATABASE_URL")
    return url
