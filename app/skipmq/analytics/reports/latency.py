"""Waiting and processing times of messages."""

from collections.abc import Sequence
from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from skipmq.analytics.period import HOUR
from skipmq.analytics.reports.measures import (
    QUEUE,
    in_order,
    is_outcome,
    outcomes,
    percentiles,
    seconds,
    since,
    with_arrival,
)


def latency(history: DataFrame, *, step: timedelta = HOUR, arrived: bool = False) -> DataFrame:
    """Return percentiles of the three latencies by queue and step of settlement.

    Columns: the queue, `since` (of the step), `settled`, `deleted`, and in seconds the 50th, 95th
    and 99th percentiles `send_to_receive_p50` … (of received messages), `receive_to_delete_p50` …
    and `send_to_delete_p50` … (of deleted messages). Receive means the first one, so receive to
    delete includes redeliveries. Dead letters were received in their source queue and count for
    send to delete only.
    """
    return (
        with_arrival(history.where(fn.col("settled_at").isNotNull()), arrived=arrived)
        .groupBy(*QUEUE, since("settled_at", step))
        .agg(
            fn.count("*").alias("settled"),
            fn.count_if(is_outcome("deleted")).alias("deleted"),
            *_latencies(),
        )
        .transform(in_order, *QUEUE, "since")
    )


def summary(history: DataFrame, *, arrived: bool = False) -> DataFrame:
    """Return outcomes and percentiles of the three latencies by queue.

    Columns: the queue, `settled`, `deleted`, `expired`, `purged`, `dead_lettered`, `redriven`,
    `bytes` (bodies and attributes), and the percentiles of `latency`.
    """
    return (
        with_arrival(history.where(fn.col("settled_at").isNotNull()), arrived=arrived)
        .groupBy(*QUEUE)
        .agg(
            fn.count("*").alias("settled"),
            *outcomes(),
            fn.sum(fn.col("body_bytes") + fn.col("attribute_bytes")).alias("bytes"),
            *_latencies(),
        )
        .transform(in_order, *QUEUE)
    )


def _latencies() -> Sequence[Column]:
    deleted = is_outcome("deleted")
    is_sent_here = ~fn.col("dead_letter")
    wait, work = seconds("sent_at", "first_received_at"), seconds("first_received_at", "settled_at")
    return [
        *percentiles(fn.when(is_sent_here, wait), "send_to_receive"),
        *percentiles(fn.when(deleted & is_sent_here, work), "receive_to_delete"),
        *percentiles(fn.when(deleted, seconds("sent_at", "settled_at")), "send_to_delete"),
    ]
