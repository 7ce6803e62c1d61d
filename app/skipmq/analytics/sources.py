"""What reports and audits read: the history of a time, live messages, the queues' settings."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from psycopg.rows import dict_row
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from skipmq.analytics import jdbc, read, snapshot
from skipmq.analytics.jdbc import Source
from skipmq.analytics.period import Period

_LIVE = (
    "null::timestamptz as settled_at, sent_at, first_received_at, id, queue_id, account, region,"
    " queue, fifo, receive_count, body_bytes, attribute_bytes, message_id, group_id,"
    " deduplication_id, sender, trace_header"
)
_TIMEOUTS = pa.schema(
    [*((name, pa.string()) for name in ("account", "region", "queue")),
     ("visibility_timeout", pa.int32())]
)  # fmt: skip


def from_database(
    spark: SparkSession, source: Source, period: Period, queues: Sequence[str] = ()
) -> DataFrame:
    """Read what was settled since the beginning of a period, and what waits, of one instant.

    What waits is read here, in a snapshot that is over then, and kept by Spark. The history is read
    when the frame is, in short cursors without one: what was settled after that instant is left
    out by its transaction. Raises psycopg.OperationalError when the database is away.
    """
    wanted = f" and queue in ({', '.join(map(jdbc.literal, queues))})" if queues else ""
    query = (
        f"select {_LIVE} from skipmq_views.message_metadata"  # noqa: S608 - our own names.
        f" where not retired{wanted}"
    )
    with snapshot.taken(source) as taken:
        live = read.as_history(taken.read(spark, query, fetch=jdbc.FETCH))
        live = live.persist(StorageLevel.MEMORY_AND_DISK)
        live.count()
    history = read.history(
        spark,
        taken.source,
        since=period.since,
        queues=queues,
        bodies=True,
        condition=taken.settled(),
    )
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
    rows: list[dict[str, Any]] = []
    if source is not None:
        with source.connect() as connection:
            rows = (
                connection.cursor(row_factory=dict_row)
                .execute(
                    "select account, region, queue, visibility_timeout from skipmq_views.queue"
                    " where retired_at is null"
                )
                .fetchall()
            )
    # Not as a list, which takes Python on the executors.
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=_TIMEOUTS))


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
