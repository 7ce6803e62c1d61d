"""The input of reports and audits: the history and live messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from skipmq.analytics import frames, jdbc, snapshot
from skipmq.analytics.delta import Table
from skipmq.analytics.jdbc import Source
from skipmq.analytics.period import day_bounds
from skipmq.analytics.postgres import history


def from_database(
    spark: SparkSession,
    source: Source,
    since: datetime,
    queues: Sequence[str] = (),
    *,
    as_of: datetime | None = None,
) -> DataFrame:
    """Read the messages settled since a time and the live ones, consistent with one snapshot.

    With `as_of`, those that were sent and settled after it are left out.

    Live messages are read and cached here, so that the snapshot is released. The history is read
    lazily, in short queries without a snapshot; messages settled after the snapshot are excluded by
    their transactions. Raises database.session.Unavailable.
    """
    with snapshot.taken(source) as taken:
        view = taken.read(spark, "skipmq_views.message_metadata", ["not retired"], fetch=jdbc.FETCH)
        if queues:
            view = view.where(view["queue"].isin(list(queues)))
        if as_of:
            view = view.where(view["sent_at"] < fn.lit(as_of))
        live = frames.as_history(view).persist(StorageLevel.MEMORY_AND_DISK)
        live.count()
    settled = frames.history(
        spark,
        taken.source,
        since=since,
        queues=queues,
        bodies=True,
        condition=taken.settled(),
        as_of=as_of,
    )
    return settled.unionByName(live)


def from_lake(
    spark: SparkSession,
    path: str,
    since: datetime,
    queues: Sequence[str] = (),
    *,
    as_of: datetime | None = None,
) -> DataFrame:
    """Read the messages settled since a time from a lake.

    With `as_of`, those that were sent and settled after it are left out. Raises errors.LakeError
    if there is no lake.
    """
    return frames.lake(spark, path, since=since, queues=queues, as_of=as_of)


@dataclass(frozen=True, slots=True)
class HistoryScope:
    """The scope of a history: messages settled `since` a time, without the queues `unkept`."""

    since: datetime | None
    unkept: Sequence[str]


def history_scope(source: Source) -> HistoryScope:
    """Return the scope of a database's history; raise database.session.Unavailable."""
    with source.connect() as session:
        days = history.days(session)
        unkept = history.queues_without_history(session)
    return HistoryScope(day_bounds(days[0])[0] if days else None, unkept)


def lake_since(table: Table) -> datetime | None:
    """Return the beginning of the first day in a lake, None if it is empty."""
    return min((day_bounds(file.day)[0] for file in table.files), default=None)
