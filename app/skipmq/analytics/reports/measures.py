"""What all reports measure with: the key of a queue, steps, seconds, percentiles."""

from collections.abc import Sequence
from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from skipmq.analytics.period import Period

QUEUE = ["account", "region", "queue"]
_QUANTILES = (0.5, 0.95, 0.99)
# The rank of what percentile_approx gives is off by at most a thousandth of the rows.
ACCURACY = 1_000


def in_order(frame: DataFrame, *columns: str) -> DataFrame:
    """Return a small frame in the order of these columns.

    In one task: Spark's orderBy computes all twice, first to find where to cut.
    """
    return frame.repartition(1).sortWithinPartitions(*columns)


def since(moment: str, step: timedelta) -> Column:
    """Return the beginning of the step that a timestamp column is in, as `since`.

    Steps are counted from midnight of 1970-01-01, UTC: hours and days begin where clocks have them.
    """
    length = fn.lit(step // timedelta(microseconds=1)).cast("bigint")
    micros = fn.unix_micros(moment)
    return fn.timestamp_micros(micros - fn.pmod(micros, length)).alias("since")


def seconds(start: str, end: str) -> Column:
    """Return the seconds from one timestamp column to another, with their fraction."""
    return seconds_between(fn.col(start), fn.col(end))


def seconds_between(start: Column, end: Column) -> Column:
    """Return the seconds from one timestamp to another, with their fraction."""
    return (fn.unix_micros(end) - fn.unix_micros(start)) / 1_000_000


def within(moment: str, period: Period) -> Column:
    """Return whether a timestamp column is in a period; null where it is."""
    return (fn.col(moment) >= fn.lit(period.since)) & (fn.col(moment) < fn.lit(period.until))


def percentiles(value: Column, name: str) -> Sequence[Column]:
    """Return the aggregates `NAME_p50`, `NAME_p95` and `NAME_p99` of a column; null of nothing."""
    found = fn.percentile_approx(value, list(_QUANTILES), ACCURACY)
    return [
        found[place].alias(f"{name}_p{round(quantile * 100)}")
        for place, quantile in enumerate(_QUANTILES)
    ]


def is_outcome(outcome: str) -> Column:
    """Return whether a row's outcome is this one; false for a message that still waits."""
    return fn.coalesce(fn.col("outcome") == outcome, fn.lit(False))  # noqa: FBT003 - a SQL literal.


def outcomes() -> Sequence[Column]:
    """Return the aggregates `deleted`, `expired`, `purged`, `dead_lettered` and `redriven`."""
    return [
        fn.count_if(is_outcome(outcome)).alias(outcome.replace("-", "_"))
        for outcome in ("deleted", "expired", "purged", "dead-lettered", "redriven")
    ]


def moves(history: DataFrame) -> DataFrame:
    """Give each dead letter's last move: its `id`, `moved_at` and the queue `moved_from`."""
    return (
        # Plain, so that the source need not give any others.
        history.where(fn.col("outcome") == "dead-lettered")
        .groupBy("id")
        .agg(
            fn.max("settled_at").alias("moved_at"),
            fn.max_by("queue_id", "settled_at").alias("moved_from"),
        )
    )


def with_arrival(
    history: DataFrame, moved: DataFrame | None = None, *, arrived: bool = False
) -> DataFrame:
    """Add `arrived_at`, when a message came to its queue, and `dead_letter`, whether as one.

    A dead letter keeps its id, `sent_at`, `first_received_at` and receive count when it is moved to
    its dead-letter queue; it arrives there when the source settles it as dead-lettered. `moved` is
    what `moves` gives, where that is at hand. `arrived` says that the frame has both columns, as
    a caller of all reports knows: to check would have it analysed, which a pipeline forbids.
    """
    if arrived:
        return history
    if moved is None:
        # Dead letters are few among all messages.
        moved = fn.broadcast(moves(history))
    dead_letter = (fn.col("moved_from") != fn.col("queue_id")) & (
        fn.col("settled_at").isNull() | (fn.col("moved_at") <= fn.col("settled_at"))
    )
    return (
        history.join(moved, "id", "left")
        .withColumn("dead_letter", fn.coalesce(dead_letter, fn.lit(False)))  # noqa: FBT003 - a SQL literal.
        .withColumn(
            "arrived_at",
            fn.when(fn.col("dead_letter"), fn.col("moved_at")).otherwise(fn.col("sent_at")),
        )
        .drop("moved_at", "moved_from")
    )


def without_dead_letters(history: DataFrame, *, arrived: bool = False) -> DataFrame:
    """Return what was settled in the queue that it was sent to: all but dead letters.

    How often and when a dead letter was received says nothing of its dead-letter queue.
    """
    settled = history.where(fn.col("settled_at").isNotNull())
    return with_arrival(settled, arrived=arrived).where(~fn.col("dead_letter"))
