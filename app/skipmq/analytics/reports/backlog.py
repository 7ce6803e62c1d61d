"""What waits, how old it is, and when it will be gone."""

from datetime import datetime, timedelta

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from skipmq.analytics.period import Period
from skipmq.analytics.reports.measures import QUEUE, in_order, seconds_between, with_arrival

# The rates of the forecast are those of the last ten minutes, and of three steps at least.
_RECENT_SECONDS, _RECENT_STEPS = 600, 3


def backlog(history: DataFrame, period: Period, *, arrived: bool = False) -> DataFrame:
    """Give what was not yet settled at the end of each step, by queue.

    Columns: the queue, `at` (the end of the step, or of the period), `seconds` (of the step),
    `came` and `went` (messages in the step), `waiting` (messages visible, delayed or in flight at
    `at`) and `oldest_age_seconds` (of the oldest of them in this queue; 0 when there is none).

    `history` has what was settled since the period's beginning, also after its end; messages that
    wait still have no `settled_at`. Without those it knows only what has been settled until it
    was read.
    """
    steps = period.steps
    came = _step("arrived_at", period)
    # What is settled after the end is still there at the end.
    went = fn.coalesce(fn.least(_step("settled_at", period), fn.lit(steps)), fn.lit(steps))
    present = (
        with_arrival(history, arrived=arrived)
        .withColumn("came_in", fn.greatest(came, fn.lit(-1)))
        .withColumn("went_in", went)
        .where((fn.col("came_in") < steps) & (fn.col("went_in") >= 0))
    )
    grid = (
        present.select(*QUEUE)
        .distinct()
        .withColumn("step", fn.explode(fn.sequence(fn.lit(-1), fn.lit(steps))))
    )
    arrivals = present.groupBy(*QUEUE, fn.col("came_in").alias("step")).agg(
        fn.count("*").alias("came")
    )
    departures = present.groupBy(*QUEUE, fn.col("went_in").alias("step")).agg(
        fn.count("*").alias("went"), fn.min("arrived_at").alias("oldest")
    )
    by_step = Window.partitionBy(*QUEUE).orderBy("step")
    until_now = by_step.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    later = by_step.rowsBetween(1, Window.unboundedFollowing)
    at = fn.least(
        fn.timestamp_micros(_micros(period.since) + (fn.col("step") + 1) * _length(period)),
        fn.lit(period.until),
    )
    begun = fn.timestamp_micros(_micros(period.since) + fn.col("step") * _length(period))
    # Of all that leaves later the first to come is the oldest here, if it has come at all.
    age = seconds_between(fn.col("first_of_later"), fn.col("at"))
    return (
        grid.join(arrivals, [*QUEUE, "step"], "left")
        .join(departures, [*QUEUE, "step"], "left")
        .fillna(0, ["came", "went"])
        .withColumn("waiting", fn.sum(fn.col("came") - fn.col("went")).over(until_now))
        .withColumn("first_of_later", fn.min("oldest").over(later))
        .where((fn.col("step") >= 0) & (fn.col("step") < steps))
        .withColumn("at", at)
        .withColumn("seconds", seconds_between(begun, fn.col("at")))
        .withColumn("oldest_age_seconds", fn.greatest(fn.coalesce(age, fn.lit(0.0)), fn.lit(0.0)))
        .transform(in_order, *QUEUE, "step")
        .select(*QUEUE, "at", "seconds", "came", "went", "waiting", "oldest_age_seconds")
    )


def forecast(backlogs: DataFrame) -> DataFrame:
    """Forecast from what `backlog` gives when each queue will be empty.

    Columns: the queue, `at`, `waiting`, `oldest_age_seconds`, `recent_seconds`, `in_per_second` and
    `out_per_second` (over that time, the last ten minutes, and three steps at least),
    `drains_in_seconds` and `drained_at`: null when as much comes as goes. Straight on at these
    rates: it knows nothing of nights and weekends.
    """
    queue = Window.partitionBy(*QUEUE)
    back = fn.row_number().over(queue.orderBy(fn.desc("at")))
    before = seconds_between(fn.col("at"), fn.max("at").over(queue))
    recent = (
        backlogs.withColumn("back", back)
        .withColumn("before", before)
        .where((fn.col("back") <= _RECENT_STEPS) | (fn.col("before") < _RECENT_SECONDS))
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
    """Return the number of the step that a moment is in; negative before the first."""
    return fn.floor((fn.unix_micros(moment) - _micros(period.since)) / _length(period)).cast("int")
