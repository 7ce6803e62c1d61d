"""The building blocks of reports: queue keys, steps, seconds, percentiles, arrival times."""

from collections.abc import Sequence
from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from skipmq.analytics.period import Period

QUEUE = ["account", "region", "queue"]
_QUANTILES = (0.5, 0.95, 0.99)


def in_order(frame: DataFrame, *columns: str) -> DataFrame:
    """Sort a small frame by columns, in one task.

    Spark's orderBy would compute the frame twice, the first time to sample partition boundaries.
    """
    return frame.repartition(1).sortWithinPartitions(*columns)


def since(moment: str, step: timedelta) -> Column:
    """Return the beginning of a timestamp column's step, as `since`.

    Steps are counted from 1970-01-01 00:00 UTC, so hours and days are aligned to the clock.
    """
    length = fn.lit(step // timedelta(microseconds=1)).cast("bigint")
    micros = fn.unix_micros(moment)
    return fn.timestamp_micros(micros - fn.pmod(micros, length)).alias("since")


def seconds(start: str, end: str) -> Column:
    """Return the seconds from one timestamp column to another, with fractions."""
    return seconds_between(fn.col(start), fn.col(end))


def seconds_between(start: Column, end: Column) -> Column:
    """Return the seconds from one timestamp to another, with fractions."""
    return (fn.unix_micros(end) - fn.unix_micros(start)) / 1_000_000


def within(moment: str, period: Period) -> Column:
    """Return whether a timestamp column is in a period; null for null."""
    return (fn.col(moment) >= fn.lit(period.since)) & (fn.col(moment) < fn.lit(period.until))


def percentiles(value: Column, name: str) -> Sequence[Column]:
    """Return the aggregates `NAME_p50`, `NAME_p95`, `NAME_p99` of a column; null without values.

    They are PostgreSQL's percentile_disc: exact, and actual values.
    """
    return [quantile(value, q).alias(f"{name}_p{round(q * 100)}") for q in _QUANTILES]


def quantile(value: Column, fraction: float) -> Column:
    """Return the least value that at least this fraction of the values does not exceed."""
    # Spark's percentile takes ten times as long, and percentile_approx depends on the engine.
    rank = fn.ceil(fn.count(value) * fraction)
    return fn.get(fn.sort_array(fn.collect_list(value)), rank.cast("int") - 1)


def is_outcome(outcome: str) -> Column:
    """Return whether a row has this outcome; false for a live message."""
    return fn.coalesce(fn.col("outcome") == outcome, fn.lit(False))  # noqa: FBT003 - a SQL literal.


def outcomes() -> Sequence[Column]:
    """Return the aggregates `deleted`, `expired`, `purged`, `dead_lettered` and `redriven`."""
    return [
        fn.count_if(is_outcome(outcome)).alias(outcome.replace("-", "_"))
        for outcome in ("deleted", "expired", "purged", "dead-lettered", "redriven")
    ]


def moves(history: DataFrame) -> DataFrame:
    """Return each dead letter's last move: its `id`, `moved_at` and the queue `moved_from`."""
    return (
        # Not is_outcome, because only a plain comparison is pushed down to the source.
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
    """Add `arrived_at`, the time of arrival in the queue, and `dead_letter`, whether by a move.

    A dead letter keeps its ID, `sent_at`, `first_received_at` and receive count in its dead-letter
    queue, where it arrives when the source queue settles it as dead-lettered. `moved` is the result
    of `moves`, if available. With `arrived`, the frame has both columns and is returned unchanged:
    checking its columns would analyse it, which pipelines do not allow.
    """
    if arrived:
        return history
    if moved is None:
        # Dead letters are few enough for a broadcast join.
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
    """Return the messages settled in the queue that they were sent to, without dead letters.

    The receives of a dead letter were in its source queue.
    """
    settled = history.where(fn.col("settled_at").isNotNull())
    return with_arrival(settled, arrived=arrived).where(~fn.col("dead_letter"))
