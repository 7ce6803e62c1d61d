"""Reports on rows that are made by hand, by each engine."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

import duckdb
import pyarrow as pa

from skipmq.analytics import delta, queue_settings, reports
from skipmq.analytics.reports import report
from skipmq.analytics.reports.engines.duckdb import DuckEngine
from skipmq.analytics.reports.period import Period
from support.settled import at_noon, frame, local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Its steps are of an hour, as those of the functions are without another.
DAYS = Period(at_noon(-86_400), at_noon(86_400))
Rows: TypeAlias = Sequence[dict[str, Any]]


def by_duckdb(
    name: str, rows: Rows, period: Period = DAYS, timeouts: Sequence[int | None] = ()
) -> Rows:
    """Compute a report as its command does."""
    with duckdb.connect() as connection:
        engine = DuckEngine(connection)
        connection.register("history", pa.Table.from_pylist(list(rows), schema=delta.SCHEMA))
        queues = pa.Table.from_pylist(_settings(timeouts), schema=queue_settings.SCHEMA)
        with report.reports(engine, "history", engine.queues(queues), period) as computed:
            found: Rows = computed[name]().to_pylist()
    return [{key: _without_zone(value) for key, value in each.items()} for each in found]


def by_spark(
    spark: "SparkSession",
    name: str,
    rows: Rows,
    period: Period = DAYS,
    timeouts: Sequence[int | None] = (),
) -> Rows:
    """Compute a report by its function, which notebooks call."""
    schema = "account string, region string, queue string, visibility_timeout int"
    arguments: Mapping[str, tuple[Any, ...]] = {
        "backlog": (period,),
        "comparison": (period,),
        "visibility": (local(spark, _settings(timeouts), schema),),
    }
    steps = {"step": period.bar} if name in {"latency", "traffic", "consumers"} else {}
    history = frame(spark, *rows)
    if name == "forecast":
        found = reports.forecast(reports.backlog(history, period))
    else:
        function = reports.dead_letter_causes if name == "dead_letters" else getattr(reports, name)
        found = function(history, *arguments.get(name, ()), **steps)
    return [each.asDict() for each in found.collect()]


def _settings(timeouts: Sequence[int | None]) -> Rows:
    key = {"account": "000000000000", "region": "us-east-1"}
    return [
        {**key, "queue": f"q{n}", "visibility_timeout": timeout}
        for n, timeout in enumerate(timeouts)
    ]


def _without_zone(value: Any) -> Any:
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value
