"""Arrivals and settlements, and message sizes."""

from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from skipmq.analytics.period import HOUR
from skipmq.analytics.reports.measures import (
    QUEUE,
    in_order,
    outcomes,
    quantile,
    since,
    with_arrival,
)


def arrivals(history: DataFrame, *keys: Column | str) -> DataFrame:
    """Return the arrivals by these keys, of a frame that has `arrived_at`.

    Columns: the keys, `arrived`, `arrived_bytes` (bodies and attributes) and the sizes of bodies
    in bytes `body_p50`, `body_p95`, `body_max`.
    """
    return history.groupBy(*keys).agg(
        fn.count("*").alias("arrived"),
        fn.sum(_size()).alias("arrived_bytes"),
        quantile(fn.col("body_bytes"), 0.5).alias("body_p50"),
        quantile(fn.col("body_bytes"), 0.95).alias("body_p95"),
        fn.max("body_bytes").alias("body_max"),
    )


def traffic(history: DataFrame, *, step: timedelta = HOUR, arrived: bool = False) -> DataFrame:
    """Return messages, bytes and sizes by queue and step.

    Columns: the queue, `since` (of the step); of arrivals in the step `arrived`, `arrived_bytes`
    (bodies and attributes) and the sizes of bodies in bytes `body_p50`, `body_p95`, `body_max`; of
    settlements `deleted`, `expired`, `purged`, `dead_lettered`, `redriven` and `settled_bytes`. A
    dead letter arrives in a dead-letter queue when it is moved there.
    """
    arriving = arrivals(with_arrival(history, arrived=arrived), *QUEUE, since("arrived_at", step))
    settled = (
        history.where(fn.col("settled_at").isNotNull())
        .groupBy(*QUEUE, since("settled_at", step))
        .agg(
            *outcomes(),
            fn.sum(_size()).alias("settled_bytes"),
        )
    )
    counts = [
        "arrived",
        "arrived_bytes",
        "deleted",
        "expired",
        "purged",
        "dead_lettered",
        "redriven",
    ]
    return (
        arriving.join(settled, [*QUEUE, "since"], "full")
        .fillna(0, [*counts, "settled_bytes"])
        .transform(in_order, *QUEUE, "since")
    )


def _size() -> Column:
    return fn.col("body_bytes") + fn.col("attribute_bytes")
