"""The history as a DataFrame, from the database or from the lake.

Both have the columns of `columns.HISTORY` in that order, so reports do not depend on the source.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_type

from skipmq.analytics import jdbc
from skipmq.analytics.columns import HISTORY, PARTITION, VIEW
from skipmq.analytics.jdbc import Source
from skipmq.analytics.lake import windows
from skipmq.analytics.lake.tables import Lake
from skipmq.analytics.reports import bodies
from skipmq.analytics.reports.period import day_bounds, settled_before

# A column while it is computed.
_READ = "read body"
# In milliseconds: so short that what else uses the server's processors hardly waits for its rows.
_PAUSE = 50


def history(  # noqa: PLR0913 - optional filters.
    spark: SparkSession,
    source: Source,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    queues: Sequence[str] = (),
    bodies: bool = False,
    condition: str = "",
    as_of: datetime | None = None,
) -> DataFrame:
    """Read the messages settled from `since` to before `until` in these queues (none: all).

    With `as_of`, those that were sent and settled after it are left out. Reads by short queries
    with a cursor each; partitions one after the other. Without `bodies`, attributes and body are
    null. `condition` is an additional predicate in PostgreSQL's SQL. Raises database.session.Error.
    """
    until = settled_before(until, as_of)
    time = [
        *([f"settled_at >= '{_text(since)}'"] if since else []),
        *([f"settled_at < '{_text(until)}'"] if until else []),
        *([f"least(settled_at, sent_at) < '{_text(as_of)}'"] if as_of else []),
    ]

    def read(database: Source) -> DataFrame:
        days = [day for day in jdbc.days(database) if _overlaps(day, since, until)]
        with database.connect() as connection:
            plan = windows.plan_within(
                connection, [" and ".join([f"({day})", *time]) for day in jdbc.by_day(days)]
            )
        conditions = [f"{c} and ({condition})" if condition else c for c in plan.conditions]
        view = "history" if bodies else "history_metadata"
        frame = database.read(spark, f"skipmq_views.{view}", conditions, fetch=plan.fetch)
        if queues:
            frame = frame.where(f.col("queue").isin(list(queues)))
        return as_history(frame).coalesce(plan.tasks)

    return reduce(DataFrame.union, map(read, source.databases))


def selected(spark: SparkSession, source: Source, condition: str) -> DataFrame:
    """Read the rows that match a condition in PostgreSQL's SQL, by short queries, with bodies."""
    with source.connect() as connection:
        plan = windows.plan_within(connection, [condition])
    frame = source.read(spark, "skipmq_views.history", plan.conditions, fetch=plan.fetch)
    return as_history(frame).coalesce(plan.tasks)


def lake(  # noqa: PLR0913 - optional filters.
    spark: SparkSession,
    path: str,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    queues: Sequence[str] = (),
    as_of: datetime | None = None,
) -> DataFrame:
    """Read one version of the lake at `path`, filtered by a period and queues (none: all).

    With `as_of`, messages that were sent and settled after it are left out. Raises errors.LakeError
    if there is no lake.
    """
    until = settled_before(until, as_of)
    opened = Lake.open(spark, path)
    files = set(opened.table.within(since, queues, until, as_of))
    frame = opened.frame(files.__contains__)
    if since is not None:
        frame = frame.where(f.col("settled_at") >= f.lit(since))
    if until is not None:
        frame = frame.where(f.col("settled_at") < f.lit(until))
    if as_of is not None:
        frame = frame.where(f.least("settled_at", "sent_at") < f.lit(as_of))
    return frame


def with_bodies(history: DataFrame, schema: str) -> DataFrame:
    """Return a queue's history with the body as a struct, by a schema such as the queue's.

    The column `unfit` has the text of a body that does not fit, which is then null. The executors
    need the Python of the driver. Raises body_schemas.SchemaError.
    """

    def read(texts: pa.Array) -> pa.Array:
        return bodies.rows(schema, texts)

    made = f.arrow_udf(read, from_arrow_type(bodies.columns(schema)))
    typed = history.withColumn(_READ, made("body")).withColumn("body", f.col(_READ)["body"])
    return typed.withColumn(bodies.UNFIT, f.col(_READ)[bodies.UNFIT]).drop(_READ)


def paced(frame: DataFrame, rate: int, tasks: int) -> DataFrame:
    """Return a frame whose tasks, `tasks` of them, together read at most `rate` rows a second."""
    parallel = min(tasks, frame.sparkSession.sparkContext.defaultParallelism)
    each = max(1, round(rate * _PAUSE / 1000 / parallel))
    # A condition that is true of each row, for which Java pauses at one of `each` rows.
    pause = f"length(coalesce(reflect('java.lang.Thread', 'sleep', {_PAUSE}L), '')) >= 0"
    return frame.where(f"monotonically_increasing_id() % {each} < {each - 1} or {pause}")


def as_history(frame: DataFrame) -> DataFrame:
    """Convert a view's frame to the columns of `columns.HISTORY`; missing columns are null."""
    # Columns of Python take a dozen calls of the JVM each.
    names = set(frame.columns)
    converted = frame.selectExpr(
        *(
            f"cast({c.name if c.name in names else 'null'} as {c.dataType.simpleString()})"
            f" as {c.name}"
            for c in HISTORY
            if c.name in VIEW
        )
    )
    return converted.selectExpr("*", "to_date(settled_at) as day", f"{PARTITION} as partition")


def _overlaps(day: date, since: datetime | None, until: datetime | None) -> bool:
    begin, end = day_bounds(day)
    return (until is None or begin < until) and (since is None or end > since)


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat()
