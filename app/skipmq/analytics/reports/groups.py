"""Hot groups of FIFO queues and noisy tenants of standard queues."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from skipmq.analytics.reports.measures import (
    QUEUE,
    in_order,
    is_outcome,
    percentiles,
    seconds,
)

# Maximum number of groups of a queue.
_LIMIT = 20
# The rule of fair queues in skipmq.mark_noisy: a noisy tenant has more than a tenth of the messages
# in flight, and at least 30 (https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-fair-queues.html).
NOISY_SHARE, NOISY_MINIMUM = 0.1, 30


def groups(history: DataFrame) -> DataFrame:
    """Return the 20 groups of each queue with the longest total time in flight.

    Columns: the queue, `fifo`, `group_id`, `messages` and their `share` in the queue, `bytes`,
    `in_flight_seconds` (sum of first receive to settlement) and `in_flight_share`,
    `wait_p50` … `wait_p99` (send to first receive, seconds), `redelivered`, `dead_lettered`,
    `groups` (of the queue), `even_share` (1 / groups) and `noisy` (more than a tenth of the time in
    flight, at least 30 messages, and at least ten groups in the queue).
    """
    counted = (
        history.where(fn.col("settled_at").isNotNull() & fn.col("group_id").isNotNull())
        .groupBy(*QUEUE, "fifo", "group_id")
        .agg(
            fn.count("*").alias("messages"),
            fn.sum(fn.col("body_bytes") + fn.col("attribute_bytes")).alias("bytes"),
            fn.coalesce(fn.sum(seconds("first_received_at", "settled_at")), fn.lit(0.0)).alias(
                "in_flight_seconds"
            ),
            *percentiles(seconds("sent_at", "first_received_at"), "wait"),
            fn.count_if(fn.col("receive_count") > 1).alias("redelivered"),
            fn.count_if(is_outcome("dead-lettered")).alias("dead_lettered"),
        )
    )
    queue = Window.partitionBy(*QUEUE)
    rank = fn.row_number().over(
        queue.orderBy(fn.desc("in_flight_seconds"), fn.desc("messages"), "group_id")
    )
    shared = (
        counted.withColumn("groups", fn.count("*").over(queue))
        .withColumn("share", fn.col("messages") / fn.sum("messages").over(queue))
        .withColumn(
            "in_flight_share",
            fn.coalesce(
                fn.try_divide("in_flight_seconds", fn.sum("in_flight_seconds").over(queue)),
                fn.lit(0.0),
            ),
        )
        .withColumn("even_share", 1 / fn.col("groups"))
        .withColumn("rank", rank)
    )
    noisy = (
        (fn.col("in_flight_share") > NOISY_SHARE)
        & (fn.col("messages") >= NOISY_MINIMUM)
        & (fn.col("groups") >= 1 / NOISY_SHARE)
    )
    return (
        shared.where(fn.col("rank") <= _LIMIT)
        .withColumn("noisy", noisy)
        .transform(in_order, *QUEUE, "rank")
        .select(
            *QUEUE,
            *("fifo", "group_id", "messages", "share", "bytes", "in_flight_seconds"),
            *("in_flight_share", "wait_p50", "wait_p95", "wait_p99", "redelivered"),
            *("dead_lettered", "groups", "even_share", "noisy"),
        )
    )
