"""Reports: a query of Spark's SQL each, in a file of its name, and functions to run them by Spark.

A query reads tables by these names: `history` (the columns of `columns.HISTORY`; live messages have
no `settled_at`), `queues` (their `visibility_timeout`), and the results of other queries: `moves`,
`message`, `settled`, `active` and `backlog`. The head of each file describes its columns, after the
queue's `account`, `region` and `queue`. Percentiles are exact, and actual values: PostgreSQL's
percentile_disc. Results are small and sorted, by one task (`repartition(1)`): else Spark would
compute them twice, at first to sample the boundaries of partitions.
"""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from importlib import resources
from typing import Any

from pyspark.sql import DataFrame

from skipmq.analytics.reports.period import HOUR, Period

QUEUE = ("account", "region", "queue")
# What identifies a message, and its first receive, which no report needs.
_IDENTITY = ("message_id", "id", "queue_id", "first_received_at")


def definition(report: str) -> str:
    """Return the query of a report, in Spark's SQL with named parameters."""
    return (resources.files(__name__) / f"{report}.sql").read_text(encoding="utf-8")


def query(
    report: str, tables: Mapping[str, DataFrame], parameters: Mapping[str, datetime | int] | None
) -> DataFrame:
    """Return a report on these DataFrames, computed by their session.

    Times have a time zone; `step` is in microseconds.
    """
    return _computed(definition(report), tables, parameters)


def _computed(
    text: str, tables: Mapping[str, DataFrame], parameters: Mapping[str, datetime | int] | None
) -> DataFrame:
    # DataFrames, unlike views, leave nothing in the session, and are allowed in pipelines.
    text = re.sub(
        r"\b(from|join) (history|queues|moves|message|settled|active|backlog)\b",
        r"\1 {\2}",
        text,
    )
    session: Any = next(iter(tables.values())).sparkSession
    return session.sql(text, args=dict(parameters or {}), **tables)


def message(history: DataFrame) -> DataFrame:
    """Return the table that the reports read: a row for each message in each queue."""
    moves = query("moves", {"history": history}, None)
    return query("message", {"history": history, "moves": moves}, None)


def lives(history: DataFrame, moves: DataFrame) -> DataFrame:
    """Return the rows of the table `message`, with the IDs and the first receive of each."""
    first = QUEUE[0]
    text = definition("message").replace(first, f"{', '.join(_IDENTITY)}, {first}", 1)
    return _computed(text, {"history": history, "moves": moves}, None)


def latency(history: DataFrame, *, step: timedelta = HOUR) -> DataFrame:
    """Return percentiles of the three latencies by queue and step of settlement."""
    return query("latency", {"settled": _settled(history)}, {"step": micros(step)})


def summary(history: DataFrame) -> DataFrame:
    """Return outcomes and percentiles of the three latencies by queue."""
    return query("summary", {"settled": _settled(history)}, None)


def traffic(history: DataFrame, *, step: timedelta = HOUR) -> DataFrame:
    """Return arrivals and settlements, and their bytes, by queue and step."""
    return query("traffic", {"active": message(history)}, {"step": micros(step)})


def redelivery(history: DataFrame) -> DataFrame:
    """Return the receives of messages by the queue that they were sent to."""
    return query("redelivery", {"settled": _settled(history)}, None)


def receive_counts(history: DataFrame) -> DataFrame:
    """Return the histogram of receive counts by queue."""
    return query("receive_counts", {"settled": _settled(history)}, None)


def visibility(history: DataFrame, queues: DataFrame) -> DataFrame:
    """Return a recommendation of each queue's visibility timeout; `queues` has the present ones."""
    return query("visibility", {"settled": _settled(history), "queues": queues}, None)


def dead_letter_causes(history: DataFrame) -> DataFrame:
    """Return body shapes, attributes, senders and groups that dead letters of a queue share."""
    return query("dead_letters", {"history": history}, None)


def groups(history: DataFrame) -> DataFrame:
    """Return the 20 groups of each queue with the longest total time in flight."""
    return query("groups", {"settled": _settled(history)}, None)


def consumers(history: DataFrame, *, step: timedelta = HOUR) -> DataFrame:
    """Return the messages deleted through each node, by queue and step."""
    return query("consumers", {"settled": _settled(history)}, {"step": micros(step)})


def backlog(history: DataFrame, period: Period) -> DataFrame:
    """Return the messages not settled at the end of each step of a period, by queue.

    `history` has the messages settled since the period's beginning, also after its end.
    """
    return query("backlog", {"message": message(history)}, backlog_parameters(period))


def forecast(backlogs: DataFrame) -> DataFrame:
    """Return when each queue will be empty, from the result of `backlog`."""
    return query("forecast", {"backlog": backlogs}, None)


def comparison(history: DataFrame, period: Period) -> DataFrame:
    """Compare a period with the previous one, by queue.

    `history` has the messages settled since the beginning of the previous period.
    """
    return query("comparison", {"message": message(history)}, comparison_parameters(period))


def backlog_parameters(period: Period) -> dict[str, datetime | int]:
    """Return the parameters of the report `backlog`."""
    return {
        "since": period.since,
        "until": period.until,
        "step": micros(period.step),
        "steps": period.steps,
    }


def comparison_parameters(period: Period) -> dict[str, datetime | int]:
    """Return the parameters of the report `comparison`."""
    return {"before": period.before.since, "since": period.since, "until": period.until}


def micros(step: timedelta) -> int:
    """Return a step in microseconds."""
    return step // timedelta(microseconds=1)


def _settled(history: DataFrame) -> DataFrame:
    return message(history).where("settled_at is not null")
