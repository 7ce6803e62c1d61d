"""What reports and audits read: the history of a time, live messages, the queues' settings."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from skipmq.analytics import frames, jdbc, snapshot
from skipmq.analytics.delta import Table
from skipmq.analytics.jdbc import Source
from skipmq.analytics.period import day_bounds
from skipmq.analytics.postgres import history


def from_database(
    spark: SparkSession, source: Source, since: datetime, queues: Sequence[str] = ()
) -> DataFrame:
    """Read what was settled since a moment, and what waits, of one instant.

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
        since=since,
        queues=queues,
        bodies=True,
        condition=taken.settled(),
    )
    return settled.unionByName(live)


def from_lake(
    spark: SparkSession, path: str, since: datetime, queues: Sequence[str] = ()
) -> DataFrame:
    """Read what the lake has of what was settled since a moment.

    Raises errors.LakeError when there is no lake.
    """
    return frames.lake(spark, path, since=since, queues=queues)


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


def lake_known_since(table: Table) -> datetime | None:
    """Return when the first day begins of which a lake has something; None when it is empty."""
    return min((day_bounds(file.day)[0] for file in table.files), default=None)
