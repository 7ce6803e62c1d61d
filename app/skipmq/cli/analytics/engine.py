"""The engine of a report: DuckDB in this process, or Spark."""

import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from skipmq.analytics.spark import environment
from skipmq.cli.analytics.errors import DUCKDB, check_packages
from skipmq.cli.analytics.options import Selection, check_queues, report_period
from skipmq.cli.analytics.sources import Opened, lake_table
from skipmq.cli.output import out
from skipmq.config.settings import Settings

if TYPE_CHECKING:
    from skipmq.analytics.delta import Table
    from skipmq.analytics.reports.engines import Engine
    from skipmq.analytics.reports.period import Period

# The limit on rows for DuckDB if it is not requested: 5,000,000 rows took it 1.1 GiB.
MAXIMUM_ROWS = 10_000_000
_UNCOMPARED = (
    f"The previous period was not read, because DuckDB would read more than {MAXIMUM_ROWS:,} rows"
    " (use --engine spark, or --engine duckdb with sufficient memory)."
)
# A URL, or characters that DuckDB treats as a glob pattern or that need escaping in a URL.
_NOT_LOCAL = re.compile(r"^\w+:/|[*?\[%#]")


@dataclass(frozen=True, slots=True)
class ReportInput:
    """The input of a report, and the engine that computes it.

    `history` and `queues` are the engine's; `history_since` is the beginning of the source's
    history, `uncompared` the reason if the previous period was not read.
    """

    engine: "Engine[Any]"
    description: str
    history: Any
    queues: Any
    period: "Period"
    history_since: datetime | None
    uncompared: str = ""


def computing(
    settings: Settings, selection: Selection, engine: str
) -> AbstractContextManager[ReportInput]:
    """Yield the input of a report, readable during the block.

    Raises click.ClickException if a package or Java is missing or DuckDB cannot read the source,
    LakeError if there is no lake.
    """
    lake = selection.lake
    is_local = lake is not None and _is_local(lake)
    has_cluster = not settings.spark_master.startswith("local") or environment.submitted()
    if engine == "duckdb" or (engine == "auto" and is_local and not has_cluster):
        check_duckdb(lake)
        from skipmq.analytics import delta  # noqa: PLC0415 - PySpark is an extra.
        from skipmq.analytics.reports.period import settled_before  # noqa: PLC0415

        assert lake is not None
        table = delta.open_(delta.url_of(lake))
        check_queues(None, table, selection.queues)
        period = report_period(None, table, selection.since, selection.until)
        for begin in (period.before.since, period.since):
            end = settled_before(None, period.until)
            files = table.within(begin, selection.queues, end, period.until)
            rows = sum(file.rows for file in files)
            if engine == "duckdb" or rows <= MAXIMUM_ROWS:
                return _with_duckdb(table, period, selection.queues, begin, rows)
    return _with_spark(settings, selection)


def check_duckdb(lake: str | None) -> None:
    """Check that DuckDB can read a lake.

    Raises click.UsageError if it is not in a local folder, click.ClickException if a package is
    missing.
    """
    if lake is None or not _is_local(lake):
        raise click.UsageError(
            "DuckDB reads a lake in a local folder whose path has none of * ? [ % #: --lake DIR"
        )
    check_packages(DUCKDB, ("sqlglot", "sqlglot"))


def _is_local(lake: str) -> bool:
    return not _NOT_LOCAL.search(lake.removeprefix("file://"))


@contextmanager
def _with_duckdb(
    table: "Table", period: "Period", queues: Sequence[str], begin: datetime, rows: int
) -> Iterator[ReportInput]:
    from skipmq.analytics import queue_settings, sources  # noqa: PLC0415
    from skipmq.analytics.reports.engines import duckdb  # noqa: PLC0415

    with duckdb.opened() as engine:
        history = engine.history(table, begin, queues, as_of=period.until)
        settings = engine.queues(queue_settings.from_lake(table.lake))
        uncompared = "" if begin < period.since else _UNCOMPARED
        description, since = f"DuckDB from {rows:,} rows", sources.lake_since(table)
        yield ReportInput(engine, description, history, settings, period, since, uncompared)


@contextmanager
def _with_spark(settings: Settings, selection: Selection) -> Iterator[ReportInput]:
    with Opened(settings) as opened:
        spark, source = opened.spark_and_source(selection.lake)
        from skipmq.analytics import frames, queue_settings, sources  # noqa: PLC0415
        from skipmq.analytics.reports.engines import SparkEngine  # noqa: PLC0415

        table = lake_table(spark, selection.lake)
        check_queues(source, table, selection.queues)
        period = report_period(source, table, selection.since, selection.until)
        begin, names = period.before.since, selection.queues
        with out.status("reading"):
            if selection.lake and table:
                history = frames.lake(
                    spark, selection.lake, since=begin, queues=names, as_of=period.until
                )
                since = sources.lake_since(table)
                present = queue_settings.from_lake(table.lake)
            else:
                assert source is not None
                history = sources.from_database(spark, source, begin, names, as_of=period.until)
                since = sources.history_scope(source).since
                present = queue_settings.from_database(source)
            # An Arrow table, unlike a list, needs no Python on the executors.
            queues = spark.createDataFrame(present.select(queue_settings.TIMEOUTS))
        yield ReportInput(SparkEngine(), "Spark", history, queues, period, since)
