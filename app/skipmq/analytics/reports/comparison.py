"""Comparison of a period with the previous one, by queue."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from skipmq.analytics.period import Period
from skipmq.analytics.reports.latency import summary
from skipmq.analytics.reports.measures import QUEUE, in_order, with_arrival, within
from skipmq.analytics.reports.redelivery import redelivery
from skipmq.analytics.reports.traffic import arrivals

_COUNTS = ("arrived", "deleted", "dead_lettered")
_MEASURES = (*_COUNTS, "send_to_delete_p95", "redelivery_rate")


def comparison(history: DataFrame, period: Period, *, arrived: bool = False) -> DataFrame:
    """Compare a period with the previous one, by queue.

    Columns: the queue; of the period `arrived` (of `arrivals`), `deleted`, `dead_lettered` and
    `send_to_delete_p95` (of `summary`) and `redelivery_rate` (of `redelivery`); and the same of the
    previous period, as `arrived_before` and so on. Without data counts are 0 and the others null.
    `history` has the messages settled since the beginning of the previous period, and live messages
    if the source has them.
    """
    messages = with_arrival(history, arrived=arrived)
    now = _totals(messages, period)
    before = _totals(messages, period.before).select(
        *QUEUE, *(fn.col(name).alias(f"{name}_before") for name in _MEASURES)
    )
    return (
        now.join(before, QUEUE, "full")
        .fillna(0, [*_COUNTS, *(f"{name}_before" for name in _COUNTS)])
        .transform(in_order, *QUEUE)
    )


def _totals(messages: DataFrame, period: Period) -> DataFrame:
    """Return the measures of a period by queue."""
    arrived = arrivals(messages.where(within("arrived_at", period)), *QUEUE)
    settled = messages.where(within("settled_at", period))
    outcomes = summary(settled, arrived=True).select(
        *QUEUE, "deleted", "dead_lettered", "send_to_delete_p95"
    )
    redelivered = redelivery(settled, arrived=True).select(*QUEUE, "redelivery_rate")
    return (
        arrived.select(*QUEUE, "arrived")
        .join(outcomes, QUEUE, "full")
        .join(redelivered, QUEUE, "left")
        .fillna(0, list(_COUNTS))
        .select(*QUEUE, *_MEASURES)
    )
