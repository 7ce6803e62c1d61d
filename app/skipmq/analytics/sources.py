"""What reports and audits read: the history of a time, live messages, the queues' settings."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from skipmq.analytics import jdbc, read
from skipmq.analytics.jdbc import Source
from skipmq.analytics.period import Period

_LIVE = (
    "null::timestamptz as settled_at, sent_at, first_received_at, id, queue_id, account, region,"
    " queue, fifo, receive_count, body_bytes, attribute_bytes, message_id, group_id,"
    " deduplication_id, sender, trace_header"
)
_TIMEOUTS = "account string, region string, queue string, visibility_timeout int"


def from_database(
    spark: SparkSession, source: Source, period: Period, queues: Sequence[str] = ()
) -> DataFrame:
    """Read what was settled since the beginning of a period, and then what waits still.

    The frame is read here, once and in short cursors, and kept by Spark, for all reports. A message
    that is settled between the two reads is in neither.
    """
    history = read.history(spark, source, since=period.since, queues=queues, bodies=True)
    history = history.persist(StorageLevel.MEMORY_AND_DISK)
    history.count()
    wanted = f" and queue in ({', '.join(map(jdbc.literal, queues))})" if queues else ""
    query = (
        f"select {_LIVE} from skipmq_views.message_metadata"  # noqa: S608 - our own names.
        f" where not retired{wanted}"
    )
    live = read.as_history(source.read(spark, query)).persist(StorageLevel.MEMORY_AND_DISK)
    live.count()
    return history.unionByName(live)


def from_lake(
    spark: SparkSession, path: str, period: Period, queues: Sequence[str] = ()
) -> DataFrame:
    """Read what the lake has of what was settled since the beginning of a period.

    Raises lake.LakeError when there is no lake.
    """
    return read.lake(spark, path, since=period.since, queues=queues)


def timeouts(spark: SparkSession, source: Source | None) -> DataFrame:
    """Return the visibility timeout of each queue there is; nothing without a database.

    Columns: `account`, `region`, `queue`, `visibility_timeout` in seconds.
    """
    rows = []
    if source is not None:
        with source.connect() as connection:
            rows = connection.execute(
                "select account, region, queue, visibility_timeout from skipmq_views.queue"
                " where retired_at is null"
            ).fetchall()
    return spark.createDataFrame(rows, _TIMEOUTS)


@dataclass(frozen=True, slots=True)
class Known:
    """What the history knows: messages settled `since` then, of all queues but the `unkept`."""

    since: datetime | None
    unkept: Sequence[str]


def known(source: Source) -> Known:
    """Return what can be known of messages that are not there."""
    days = jdbc.days(source)
    with source.connect() as connection:
        rows = connection.execute(
            "select distinct queue from skipmq_views.queue where history_mode = 'off' order by 1"
        ).fetchall()
    first = datetime(days[0].year, days[0].month, days[0].day, tzinfo=UTC) if days else None
    return Known(first, [name for (name,) in rows])
