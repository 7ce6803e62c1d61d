"""How long messages wait and how long their work takes."""

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
    """Give percentiles of the three latencies by queue and step of settlement.

    Columns: the queue, `since` (of the step), `settled`, `deleted`, and in seconds the 50th, 95th
    and 99th percentiles `send_to_receive_p50` … (of all that was received), `receive_to_delete_p50`
    … and `send_to_delete_p50` … (of what was deleted). A message's first receive counts, so that
    receive to delete has its redeliveries in it; a dead letter's was not in its dead-letter queue,
    so that only its send to delete is there.
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
    """Give the same over all time, by queue, with what else there is to say in one line.

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
    here = ~fn.col("dead_letter")
    return [
        *percentiles(fn.when(here, seconds("sent_at", "first_received_at")), "send_to_receive"),
        *percentiles(
            fn.when(deleted & here, seconds("first_received_at", "settled_at")), "receive_to_delete"
        ),
        *percentiles(fn.when(deleted, seconds("sent_at", "settled_at")), "send_to_delete"),
    ]
