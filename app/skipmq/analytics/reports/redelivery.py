"""Redeliveries, and recommendations of visibility timeouts."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from skipmq.analytics.reports.measures import (
    QUEUE,
    in_order,
    is_outcome,
    percentiles,
    seconds,
    without_dead_letters,
)

# The last class of the histogram: this number of receives or more.
MAXIMUM_RECEIVES = 10
# Usual timeouts in seconds, up to the 12 hours that SQS allows.
TIMEOUTS = (
    *(1, 2, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300, 600, 900),
    *(1_800, 3_600, 7_200, 14_400, 21_600, 43_200),
)
# The safety margin over the 99th percentile of processing times.
_MARGIN = 1.2
# A lower share of timed out deliveries needs no action.
_TOLERATED_RATE = 0.005
# A timeout is too long if it is at least _LONG seconds and _FACTOR times the needed timeout. It is
# not lowered below _MINIMUM_TIMEOUT seconds.
_LONG, _FACTOR, _MINIMUM_TIMEOUT = 300, 10, 30
# Deleted messages that a recommendation needs.
_MINIMUM_DELETED = 100


def redelivery(history: DataFrame, *, arrived: bool = False) -> DataFrame:
    """Return the receives of messages by the queue that they were sent to.

    Columns: the queue, `received` (messages received at least once), `redelivered` (more than
    once), `redelivery_rate`, `receives_mean`, `receives_max`, `dead_lettered`.
    """
    received = fn.col("receive_count") >= 1
    redelivered = fn.col("receive_count") > 1
    return (
        without_dead_letters(history, arrived=arrived)
        .groupBy(*QUEUE)
        .agg(
            fn.count_if(received).alias("received"),
            fn.count_if(redelivered).alias("redelivered"),
            fn.try_divide(fn.count_if(redelivered), fn.count_if(received)).alias("redelivery_rate"),
            fn.avg(fn.when(received, fn.col("receive_count"))).alias("receives_mean"),
            fn.max("receive_count").alias("receives_max"),
            fn.count_if(is_outcome("dead-lettered")).alias("dead_lettered"),
        )
        .transform(in_order, *QUEUE)
    )


def receive_counts(history: DataFrame, *, arrived: bool = False) -> DataFrame:
    """Return the histogram of receive counts by queue.

    Columns: the queue, `receives` (0 to 10, where 10 means 10 or more), `messages`, `share` of the
    queue's messages.
    """
    messages = fn.count("*")
    return (
        without_dead_letters(history, arrived=arrived)
        .groupBy(*QUEUE, fn.least("receive_count", fn.lit(MAXIMUM_RECEIVES)).alias("receives"))
        .agg(messages.alias("messages"))
        .withColumn(
            "share", fn.col("messages") / fn.sum("messages").over(Window.partitionBy(*QUEUE))
        )
        .transform(in_order, *QUEUE, "receives")
    )


def visibility(history: DataFrame, queues: DataFrame, *, arrived: bool = False) -> DataFrame:
    """Recommend a visibility timeout for each queue.

    `queues` has the queue's key and `visibility_timeout` in seconds. Columns: the queue,
    `visibility_timeout` (null if unknown), `deleted`, `processing_p50` … `processing_p99` (first
    receive to delete of messages received once, in seconds), `timed_out` (messages received again
    after their timeout) and `given_back` (received again before it, because a consumer reset it),
    `timed_out_rate` (of all received), `advice` and `suggested_timeout`. Dead letters count as
    neither: a message that no consumer can process is left to time out each time.

    A receipt is void once its message was received again, so processing that exceeds the timeout
    shows as timed out deliveries and not as a long processing time. advice: `raise` if processing
    times are near the timeout and deliveries time out; `investigate` if deliveries time out and
    processing is much faster (consumers die or stall); `lower` if the timeout is at least five
    minutes and more than ten times the needed one; `keep`; null with less than 100 messages.
    """
    counts = without_dead_letters(history, arrived=arrived).join(queues, QUEUE, "left")
    elapsed = seconds("first_received_at", "settled_at")
    redelivered = (fn.col("receive_count") > 1) & ~is_outcome("dead-lettered")
    has_expired = elapsed >= (fn.col("receive_count") - 1) * fn.col("visibility_timeout")
    once = is_outcome("deleted") & (fn.col("receive_count") == 1)
    timed_out = fn.count_if(redelivered & has_expired)
    measured = counts.groupBy(*QUEUE, "visibility_timeout").agg(
        fn.count_if(is_outcome("deleted")).alias("deleted"),
        *percentiles(fn.when(once, elapsed), "processing"),
        timed_out.alias("timed_out"),
        fn.count_if(redelivered & ~has_expired).alias("given_back"),
        fn.try_divide(timed_out, fn.count_if(fn.col("receive_count") >= 1)).alias("timed_out_rate"),
    )
    return (
        measured.withColumn("needed", _needed())
        .withColumn("advice", _advice())
        .withColumn("suggested_timeout", _suggestion())
        .drop("needed")
        .transform(in_order, *QUEUE)
    )


def _next_timeout(seconds: Column) -> Column:
    """Return the shortest usual timeout that is at least this long."""
    # An array and a filter, because a `when` for each timeout takes Spark seconds to plan.
    choices = fn.array(*map(fn.lit, TIMEOUTS))
    sufficient = fn.filter(choices, lambda choice: choice >= seconds)
    return fn.coalesce(fn.get(sufficient, fn.lit(0)), fn.lit(TIMEOUTS[-1]))


def _needed() -> Column:
    return _next_timeout(fn.col("processing_p99") * _MARGIN)


def _advice() -> Column:
    timeout = fn.col("visibility_timeout")
    needs_action = fn.col("timed_out_rate") >= _TOLERATED_RATE
    is_near = fn.col("processing_p99") * 2 >= timeout
    return (
        fn.when(timeout.isNull() | (fn.col("deleted") < _MINIMUM_DELETED), None)
        .when(needs_action & is_near, "raise")
        .when(needs_action, "investigate")
        .when((timeout >= _LONG) & (timeout > fn.col("needed") * _FACTOR), "lower")
        .otherwise("keep")
    )


def _suggestion() -> Column:
    timeout = fn.col("visibility_timeout")
    # Timed out deliveries are not in the measured times, so raise by at least one step.
    return (
        fn.when(
            fn.col("advice") == "raise", fn.greatest(fn.col("needed"), _next_timeout(timeout * 1.5))
        )
        .when(fn.col("advice") == "lower", fn.greatest(fn.col("needed"), fn.lit(_MINIMUM_TIMEOUT)))
        .otherwise(timeout)
    )
