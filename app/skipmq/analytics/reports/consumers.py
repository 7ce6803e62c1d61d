"""Throughput of consumers by node."""

from datetime import timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from skipmq.analytics.period import HOUR
from skipmq.analytics.reports.measures import (
    QUEUE,
    in_order,
    is_outcome,
    percentiles,
    seconds,
    seconds_between,
    since,
)


def consumers(history: DataFrame, *, step: timedelta = HOUR) -> DataFrame:
    """Return the messages deleted through each node, by queue and step.

    Columns: the queue, `since` (of the step), `node` (`unknown` for messages deleted by SQL),
    `deleted`, `bytes`, `per_second` (between the first and the last delete of the step),
    `processing_p50` … `processing_p99` (first receive to delete, seconds).
    """
    size = fn.col("body_bytes") + fn.col("attribute_bytes")
    span = seconds_between(fn.min("settled_at"), fn.max("settled_at"))
    return (
        history.where(is_outcome("deleted"))
        .groupBy(
            *QUEUE,
            since("settled_at", step),
            fn.coalesce("node", fn.lit("unknown")).alias("node"),
        )
        .agg(
            fn.count("*").alias("deleted"),
            fn.sum(size).alias("bytes"),
            (fn.count("*") / fn.greatest(span, fn.lit(1.0))).alias("per_second"),
            *percentiles(seconds("first_received_at", "settled_at"), "processing"),
        )
        .transform(in_order, *QUEUE, "since", "node")
    )
