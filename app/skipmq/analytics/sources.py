"""The input of reports and reconciliations: the history and live messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from skipmq.analytics import frames, jdbc, snapshot
from skipmq.analytics.delta import Table
from skipmq.analytics.jdbc import Source
from skipmq.analytics.postgres import history
from skipmq.analytics.reports.period import day_bounds
from skipmq.analytics.snapshot import Snapshot


def from_database(
    spark: SparkSession,
    source: Source,
    since: datetime,
    queues: Sequence[str] = (),
    *,
    as_of: datetime | None = None,
) -> DataFrame:
    """Read the messages settled since a time and the live ones, consistent with one snapshot.

    Each partition has a snapshot of its own. With `as_of`, those that were sent and settled after
    it are left out.

    Live messages are read and cached here, so that the snapshot is released. The history is read
    lazily, in short queries without a snapshot; messages settled after the snapshot are excluded by
    their transactions. Raises database.session.Unavailable, errors.AnalyticsError if a queue stays
    on its way to another partition.
    """

    def waiting(taken: Snapshot) -> DataFrame:
        view = taken.read(spark, "skipmq_views.message_metadata", ["not retired"], fetch=jdbc.FETCH)
        if queues:
            view = view.where(view["queue"].isin(list(queues)))
        if as_of:
            view = view.where(view["sent_at"] < fn.lit(as_of))
        frame = frames.as_history(view).persist(StorageLevel.MEMORY_AND_DISK)
        frame.count()
        return frame

    def settled(taken: Snapshot) -> DataFrame:
        return frames.history(
            spark,
            taken.source,
            since=since,
            queues=queues,
            bodies=True,
            condition=taken.settled(),
            as_of=as_of,
        )

    with snapshot.taken_of_all(source) as snapshots:
        # Each is cached by itself: Spark does not find a union in a larger one.
        live = [waiting(taken) for taken in snapshots]
    return reduce(DataFrame.union, [*map(settled, snapshots), *live])


@dataclass(frozen=True, slots=True)
class HistoryScope:
    """The scope of a history: messages settled `since` a time, without the queues `unkept`."""

    since: datetime | None
    unkept: Sequence[str]


def history_scope(source: Source) -> HistoryScope:
    """Return the scope of a source's history, of partitions the time since which all have it.

    Raises database.session.Unavailable.
    """
    begins, unkept = [], set[str]()
    for database in source.databases:
        with database.connect() as session:
            begins += [day_bounds(day)[0] for day in history.days(session)[:1]]
            unkept.update(history.queues_without_history(session))
    return HistoryScope(max(begins, default=None), sorted(unkept))


def lake_since(table: Table) -> datetime | None:
    """Return the beginning of the first day in a lake, None if it is empty."""
    return min((day_bounds(file.day)[0] for file in table.files), default=None)


def history_begin(source: Source | None, table: Table | None) -> datetime | None:
    """Return when the history of a lake or of a database of less than two days begins.

    None if that is not known, or not recent. Raises database.session.Unavailable.
    """
    if table is not None:
        return table.first_settled
    found = []
    for database in source.databases if source else ():
        with database.connect() as session:
            days = history.days(session)
            if days and history.now(session) - day_bounds(days[0])[0] < timedelta(days=2):
                found.append(history.first_counted(session))
    return min((each for each in found if each), default=None)
