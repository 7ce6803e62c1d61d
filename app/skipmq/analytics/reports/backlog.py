"""The backlog of each queue, its age, and a forecast."""

from datetime import datetime, timedelta

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from skipmq.analytics.period import Period
from skipmq.analytics.reports.measures import QUEUE, in_order, seconds_between, with_arrival

# The forecast uses the rates of the last ten minutes, and of at least three steps.
_RECENT_SECONDS, _RECENT_STEPS = 600, 3


def backlog(history: DataFrame, period: Period, *, arrived: bool = False) -> DataFrame:
    """Return the messages not settled at the end of each step, by queue.

    Columns: the queue, `at` (the end of the step or of the period), `seconds` (of the step), `came`
    and `went` (messages that arrived and were settled in the step), `waiting` (messages visible,
    delayed or in flight at `at`) and `oldest_age_seconds` (the oldest one's time in the queue, 0 if
    there is none).

    `history` has the messages settled since the period's beginning, also after its end, and live
    messages (`settled_at` is null). Without live messages, those that were not settled when it was
    read are missing.
    """
    steps = period.steps
    arrival_step = _step("arrived_at", period)
    # Messages settled after the end of the period are waiting at its end.
    end_step = fn.coalesce(fn.least(_step("settled_at", period), fn.lit(steps)), fn.lit(steps))
    present = (
        with_arrival(history, arrived=arrived)
        .withColumn("arrival_step", fn.greatest(arrival_step, fn.lit(-1)))
        .withColumn("end_step", end_step)
        .where((fn.col("arrival_step") < steps) & (fn.col("end_step") >= 0))
    )
    grid = (
        present.select(*QUEUE)
        .distinct()
        .withColumn("step", fn.explode(fn.sequence(fn.lit(-1), fn.lit(steps))))
    )
    arrivals = present.groupBy(*QUEUE, fn.col("arrival_step").alias("step")).agg(
        fn.count("*").alias("came")
    )
    departures = present.groupBy(*QUEUE, fn.col("end_step").alias("step")).agg(
        fn.count("*").alias("went"), fn.min("arrived_at").alias("oldest")
    )
    by_step = Window.partitionBy(*QUEUE).orderBy("step")
    until_now = by_step.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    later = by_step.rowsBetween(1, Window.unboundedFollowing)
    at = fn.least(
        fn.timestamp_micros(_micros(period.since) + (fn.col("step") + 1) * _length(period)),
        fn.lit(period.until),
    )
    step_start = fn.timestamp_micros(_micros(period.since) + fn.col("step") * _length(period))
    # The oldest message at `at` is the first to arrive of those settled later, if it has arrived.
    age = seconds_between(fn.col("oldest_later"), fn.col("at"))
    return (
        grid.join(arrivals, [*QUEUE, "step"], "left")
        .join(departures, [*QUEUE, "step"], "left")
        .fillna(0, ["came", "went"])
        .withColumn("waiting", fn.sum(fn.col("came") - fn.col("went")).over(until_now))
        .withColumn("oldest_later", fn.min("oldest").over(later))
        .where((fn.col("step") >= 0) & (fn.col("step") < steps))
        .withColumn("at", at)
        .withColumn("seconds", seconds_between(step_start, fn.col("at")))
        .withColumn("oldest_age_seconds", fn.greatest(fn.coalesce(age, fn.lit(0.0)), fn.lit(0.0)))
        .transform(in_order, *QUEUE, "step")
        .select(*QUEUE, "at", "seconds", "came", "went", "waiting", "oldest_age_seconds")
    )


def forecast(backlogs: DataFrame) -> DataFrame:
    """Forecast from the result of `backlog` when each queue will be empty.

    Columns: the queue, `at`, `waiting`, `oldest_age_seconds`, `in_per_second` and `out_per_second`
    (over `recent_seconds`: the last ten minutes, at least three steps), `drains_in_seconds` and
    `drained_at` (null if the backlog does not shrink). It extrapolates these rates linearly.
    """
    queue = Window.partitionBy(*QUEUE)
    steps_ago = fn.row_number().over(queue.orderBy(fn.desc("at")))
    seconds_ago = seconds_between(fn.col("at"), fn.max("at").over(queue))
    recent = (
        backlogs.withColumn("steps_ago", steps_ago)
        .withColumn("seconds_ago", seconds_ago)
        .where((fn.col("steps_ago") <= _RECENT_STEPS) | (fn.col("seconds_ago") < _RECENT_SECONDS))
    )
    rates = recent.groupBy(*QUEUE).agg(
        fn.max("at").alias("at"),
        fn.max_by("waiting", "at").alias("waiting"),
        fn.max_by("oldest_age_seconds", "at").alias("oldest_age_seconds"),
        fn.sum("seconds").alias("recent_seconds"),
        (fn.sum("came") / fn.sum("seconds")).alias("in_per_second"),
        (fn.sum("went") / fn.sum("seconds")).alias("out_per_second"),
    )
    net = fn.col("out_per_second") - fn.col("in_per_second")
    drains = fn.when(fn.col("waiting") == 0, fn.lit(0.0)).when(net > 0, fn.col("waiting") / net)
    drained = fn.timestamp_micros(
        fn.unix_micros("at") + fn.floor(fn.col("drains_in_seconds") * 1_000_000)
    )
    return (
        rates.withColumn("drains_in_seconds", drains)
        .withColumn("drained_at", drained)
        .transform(in_order, *QUEUE)
    )


def _micros(moment: datetime) -> Column:
    return fn.unix_micros(fn.lit(moment))


def _length(period: Period) -> Column:
    return fn.lit(period.step // timedelta(microseconds=1)).cast("bigint")


def _step(moment: str, period: Period) -> Column:
    """Return the number of a timestamp column's step, negative before the period."""
    return fn.floor((fn.unix_micros(moment) - _micros(period.since)) / _length(period)).cast("int")
