"""Reading the history as one DataFrame, from the database or from the lake.

Both give the columns of `columns.HISTORY` in that order; a report takes such a frame and does not
ask where it came from.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from skipmq.analytics import jdbc, windows
from skipmq.analytics.columns import CONTENT, HISTORY, VIEW
from skipmq.analytics.jdbc import Source
from skipmq.analytics.lake import Lake


def history(  # noqa: PLR0913 - all but two have defaults.
    spark: SparkSession,
    source: Source,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    queues: Sequence[str] = (),
    bodies: bool = False,
    condition: str = "",
) -> DataFrame:
    """Read what was settled from `since` to before `until` in queues of these names (none: all).

    In short reads, each a cursor of its own; attributes and body are null unless `bodies`.
    `condition` is one more, in PostgreSQL's words.
    The days are those that the database has now. Raises psycopg.Error when it cannot be asked.
    """
    days = [day for day in jdbc.days(source) if _overlaps(day, since, until)]
    time = [
        *([f"settled_at >= '{_text(since)}'"] if since else []),
        *([f"settled_at < '{_text(until)}'"] if until else []),
    ]
    with source.connect() as connection:
        reads = windows.reads_within(
            connection, [" and ".join([f"({day})", *time]) for day in jdbc.by_day(days)]
        )
    conditions = " and ".join(
        [
            *([f"({condition})"] if condition else []),
            *([f"queue in ({', '.join(map(jdbc.literal, queues))})"] if queues else []),
        ]
    )
    view = "history" if bodies else "history_metadata"
    names = [name for name in VIEW if bodies or name not in CONTENT]
    query = f"select {', '.join(names)} from skipmq_views.{view}"  # noqa: S608 - our own names.
    if conditions:
        query += f" where {conditions}"
    frame = source.read(spark, query, reads.conditions, fetch=reads.fetch)
    return as_history(frame).coalesce(reads.tasks)


def lake(
    spark: SparkSession,
    path: str,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    queues: Sequence[str] = (),
) -> DataFrame:
    """Read what the lake at `path` has of that time and those queues (none: all).

    Only what its manifest lists: neither what an export that died left half done, nor a file that
    was replaced. Raises lake.LakeError when there is no lake.
    """
    found = Lake.open(spark, path)
    first = since and since.astimezone(UTC).date()
    last = until and until.astimezone(UTC).date()
    frame = found.frame(
        lambda file: (
            (first is None or file.day >= first)
            and (last is None or file.day <= last)
            and (not queues or file.queue in queues)
        )
    )
    if since is not None:
        frame = frame.where(f.col("settled_at") >= f.lit(since))
    if until is not None:
        frame = frame.where(f.col("settled_at") < f.lit(until))
    return frame


def as_history(frame: DataFrame) -> DataFrame:
    """Give a frame of the view's columns those of `columns.HISTORY`; what it lacks is null."""
    found = frame.withColumn("day", f.to_date("settled_at"))
    return found.select(
        *(
            (f.col(c.name) if c.name in found.columns else f.lit(None))
            .cast(c.dataType)
            .alias(c.name)
            for c in HISTORY
        )
    )


def _overlaps(day: date, since: datetime | None, until: datetime | None) -> bool:
    begin = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return (until is None or begin < until) and (since is None or begin + timedelta(days=1) > since)


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat()
