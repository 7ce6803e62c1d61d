"""What reports and audits read: the history of a time, live messages, the queues' settings."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from skipmq.analytics import frames, jdbc, snapshot
from skipmq.analytics.jdbc import Source
from skipmq.analytics.period import Period, day_bounds
from skipmq.database import history

_TIMEOUTS = pa.schema(
    [*((name, pa.string()) for name in ("account", "region", "queue")),
     ("visibility_timeout", pa.int32())]
)  # fmt: skip


def from_database(
    spark: SparkSession, source: Source, period: Period, queues: Sequence[str] = ()
) -> DataFrame:
    """Read what was settled since the beginning of a period, and what waits, of one instant.

    What waits is read here, in a snapshot that is over then, and kept by Spark. The history is read
    when the frame is, in short queries without one: what was settled after that instant is left
    out by its transaction. Raises database.session.Unavailable.
    """
    with snapshot.taken(source) as taken:
        view = taken.read(spark, "skipmq_views.message_metadata", ["not retired"], fetch=jdbc.FETCH)
        if queues:
            view = view.where(view["queue"].isin(list(queues)))
        live = frames.as_history(view).persist(StorageLevel.MEMORY_AND_DISK)
        live.count()
    settled = frames.history(
        spark,
        taken.source,
        since=period.since,
        queues=queues,
        bodies=True,
        condition=taken.settled(),
    )
    return settled.unionByName(live)


def from_lake(
    spark: SparkSession, path: str, period: Period, queues: Sequence[str] = ()
) -> DataFrame:
    """Read what the lake has of what was settled since the beginning of a period.

    Raises errors.LakeError when there is no lake.
    """
    return frames.lake(spark, path, since=period.since, queues=queues)


def timeouts(spark: SparkSession, source: Source | None) -> DataFrame:
    """Return the visibility timeout of each queue there is; nothing without a database.

    Columns: `account`, `region`, `queue`, `visibility_timeout` in seconds.
    """
    rows: list[tuple[str, str, str, int]] = []
    if source is not None:
        with source.connect() as session:
            rows = history.visibility_timeouts(session)
    # Not as a list, which takes Python on the executors.
    return spark.createDataFrame(
        pa.Table.from_pylist(
            [dict(zip(_TIMEOUTS.names, row, strict=True)) for row in rows], schema=_TIMEOUTS
        )
    )


@dataclass(frozen=True, slots=True)
class Known:
    """What the history knows: messages settled `since` then, of all queues but the `unkept`."""

    since: datetime | None
    unkept: Sequence[str]


def known(source: Source) -> Known:
    """Return what can be known of messages that are not there."""
    with source.connect() as session:
        days = history.days(session)
        unkept = history.queues_without_history(session)
    return Known(day_bounds(days[0])[0] if days else None, unkept)
