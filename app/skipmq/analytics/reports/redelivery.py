"""How often messages come again, and what their visibility timeout has to do with it."""

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

# Messages received more often than this are counted together.
MOST_RECEIVES = 10
# Timeouts that people choose, in seconds, up to the 12 hours that SQS takes.
TIMEOUTS = (
    *(1, 2, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300, 600, 900),
    *(1_800, 3_600, 7_200, 14_400, 21_600, 43_200),
)
# Room above the slowest hundredth, since the next week may be slower.
_ROOM = 1.2
# Below this share of timed out deliveries nobody need act.
_NOTICEABLE = 0.005
# The messages of a consumer that dies wait long when the timeout is so many seconds, and so many
# times what is needed; nobody need go below the least.
_LONG, _GENEROUS, _LEAST = 300, 10, 30
_ENOUGH = 100


def redelivery(history: DataFrame, *, arrived: bool = False) -> DataFrame:
    """Give how often messages were received, by the queue that they were sent to.

    Columns: the queue, `received` (messages received at least once), `redelivered` (more than
    once), `redelivery_rate`, `receives_mean`, `receives_max`, `dead_lettered`.
    """
    received = fn.col("receive_count") >= 1
    again = fn.col("receive_count") > 1
    return (
        without_dead_letters(history, arrived=arrived)
        .groupBy(*QUEUE)
        .agg(
            fn.count_if(received).alias("received"),
            fn.count_if(again).alias("redelivered"),
            fn.try_divide(fn.count_if(again), fn.count_if(received)).alias("redelivery_rate"),
            fn.avg(fn.when(received, fn.col("receive_count"))).alias("receives_mean"),
            fn.max("receive_count").alias("receives_max"),
            fn.count_if(is_outcome("dead-lettered")).alias("dead_lettered"),
        )
        .transform(in_order, *QUEUE)
    )


def receive_counts(history: DataFrame, *, arrived: bool = False) -> DataFrame:
    """Give the histogram of receive counts by queue.

    Columns: the queue, `receives` (0 to 10, where 10 stands for more too), `messages`, `share` of
    the queue's messages.
    """
    messages = fn.count("*")
    return (
        without_dead_letters(history, arrived=arrived)
        .groupBy(*QUEUE, fn.least("receive_count", fn.lit(MOST_RECEIVES)).alias("receives"))
        .agg(messages.alias("messages"))
        .withColumn(
            "share", fn.col("messages") / fn.sum("messages").over(Window.partitionBy(*QUEUE))
        )
        .transform(in_order, *QUEUE, "receives")
    )


def visibility(history: DataFrame, queues: DataFrame, *, arrived: bool = False) -> DataFrame:
    """Advise on the visibility timeout of each queue.

    `queues` has the queue's key and `visibility_timeout` in seconds. Columns: the queue,
    `visibility_timeout` (null when unknown), `deleted`, `processing_p50` … `processing_p99` (first
    receive to delete of what was received once, in seconds), `timed_out` (received again after
    their timeouts had run out) and `given_back` (received again before that: a consumer let go of
    them) with `timed_out_rate` of all received, `advice` and `suggested_timeout`.

    A receipt is void once its message was received again, so that slow work never shows as
    one long processing time where other consumers wait: it shows as timed out deliveries.
    advice: `raise` when work comes near the timeout and deliveries time out; `investigate`
    when deliveries time out though work is much faster (consumers die or stall); `lower` when the
    timeout is five minutes or more and more than ten times what is needed; `keep`; null on less
    than 100 messages.
    """
    counts = without_dead_letters(history, arrived=arrived).join(queues, QUEUE, "left")
    elapsed = seconds("first_received_at", "settled_at")
    again = fn.col("receive_count") > 1
    over = elapsed >= (fn.col("receive_count") - 1) * fn.col("visibility_timeout")
    once = is_outcome("deleted") & (fn.col("receive_count") == 1)
    measured = counts.groupBy(*QUEUE, "visibility_timeout").agg(
        fn.count_if(is_outcome("deleted")).alias("deleted"),
        *percentiles(fn.when(once, elapsed), "processing"),
        fn.count_if(again & over).alias("timed_out"),
        fn.count_if(again & ~over).alias("given_back"),
        fn.try_divide(fn.count_if(again & over), fn.count_if(fn.col("receive_count") >= 1)).alias(
            "timed_out_rate"
        ),
    )
    return (
        measured.withColumn("needed", _needed())
        .withColumn("advice", _advice())
        .withColumn("suggested_timeout", _suggestion())
        .drop("needed")
        .transform(in_order, *QUEUE)
    )


def _next_timeout(needed: Column) -> Column:
    """Return the least of the usual timeouts that is at least as long as needed."""
    # A literal and a filter: a choice for each timeout would be planned for seconds.
    choices = fn.array(*map(fn.lit, TIMEOUTS))
    enough = fn.filter(choices, lambda choice: choice >= needed)
    return fn.coalesce(fn.get(enough, fn.lit(0)), fn.lit(TIMEOUTS[-1]))


def _needed() -> Column:
    return _next_timeout(fn.col("processing_p99") * _ROOM)


def _advice() -> Column:
    timeout = fn.col("visibility_timeout")
    noticed = fn.col("timed_out_rate") >= _NOTICEABLE
    near = fn.col("processing_p99") * 2 >= timeout
    return (
        fn.when(timeout.isNull() | (fn.col("deleted") < _ENOUGH), None)
        .when(noticed & near, "raise")
        .when(noticed, "investigate")
        .when((timeout >= _LONG) & (timeout > fn.col("needed") * _GENEROUS), "lower")
        .otherwise("keep")
    )


def _suggestion() -> Column:
    timeout = fn.col("visibility_timeout")
    # What timed out would have taken longer than what was measured: at least one step up.
    return (
        fn.when(
            fn.col("advice") == "raise", fn.greatest(fn.col("needed"), _next_timeout(timeout * 1.5))
        )
        .when(fn.col("advice") == "lower", fn.greatest(fn.col("needed"), fn.lit(_LEAST)))
        .otherwise(timeout)
    )
