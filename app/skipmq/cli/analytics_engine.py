"""What computes a report: DuckDB in this process, or Spark."""

import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import click

from skipmq import config
from skipmq.cli.analytics_errors import packages_installed
from skipmq.cli.analytics_options import known, period_of, spark_and_source, table_of
from skipmq.cli.output import out
from skipmq.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from skipmq.analytics.delta import Table
    from skipmq.analytics.period import Period

# Rows that DuckDB is given unless it is asked for: 5,000,000 took it 1.1 GiB.
MOST_ROWS = 10_000_000
_LEFT_OUT = (
    f"The time before was not read: with it DuckDB would be given more than {MOST_ROWS:,} rows"
    " (--engine spark, or --engine duckdb where there is memory for them, compares)."
)
# A URL, or a path that DuckDB would take for a pattern and others for a URL's.
_ELSEWHERE = re.compile(r"^\w+:/|[*?\[%#]")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a report is about: the database's history, or a lake's."""

    lake: str | None
    since: datetime | None
    until: datetime | None
    queues: Sequence[str]


@dataclass(frozen=True, slots=True)
class Read:
    """What a report is computed from, and by which engine.

    `known_since` is when the history there begins; `uncompared` says why the period before was
    not read.
    """

    engine: str
    said: str
    history: "DataFrame"
    queues: "DataFrame"
    period: "Period"
    known_since: datetime | None
    uncompared: str = ""


def opened(settings: Settings, wanted: Wanted, engine: str) -> AbstractContextManager[Read]:
    """Give the frames of a report for as long as the block runs.

    Raises click.ClickException, with the remedy, when a package or Java is missing, or DuckDB is
    asked for where it cannot read; LakeError when there is no lake.
    """
    local = wanted.lake is not None and not _ELSEWHERE.search(wanted.lake.removeprefix("file://"))
    if engine == "duckdb" and not local:
        raise click.UsageError(
            "DuckDB reads a lake in a folder of this machine, the path of which has none of"
            " * ? [ % #: --lake DIR"
        )
    mine = settings.spark_master.startswith("local") and not config.submitted()
    if engine == "duckdb" or (engine == "auto" and local and mine):
        packages_installed(("duckdb", "DuckDB"), ("grpc", "PySpark's client"))
        from skipmq.analytics import delta  # noqa: PLC0415 - as all of the analytics.

        assert wanted.lake is not None
        table = delta.open_(delta.url_of(wanted.lake))
        known(None, table, wanted.queues)
        period = period_of(None, table, wanted.since, wanted.until)
        for begin in (period.before.since, period.since):
            rows = sum(file.rows for file in table.within(begin, wanted.queues))
            if engine == "duckdb" or rows <= MOST_ROWS:
                return _by_duckdb(table, period, wanted.queues, begin, rows)
    return _by_spark(settings, wanted)


@contextmanager
def _by_duckdb(
    table: "Table", period: "Period", queues: Sequence[str], begin: datetime, rows: int
) -> Iterator[Read]:
    from skipmq.analytics import queue_settings, sources  # noqa: PLC0415
    from skipmq.analytics.duck import lake, session  # noqa: PLC0415

    with session.opened() as duck:
        history = lake.history(duck, table, begin, queues)
        settings = lake.queues(duck, queue_settings.of_lake(table.lake))
        left_out = "" if begin < period.since else _LEFT_OUT
        said, since = f"DuckDB from {rows:,} rows", sources.lake_known_since(table)
        yield Read("duckdb", said, history, settings, period, since, left_out)


@contextmanager
def _by_spark(settings: Settings, wanted: Wanted) -> Iterator[Read]:
    with spark_and_source(settings, wanted.lake) as (spark, source):
        from skipmq.analytics import queue_settings, sources  # noqa: PLC0415

        table = table_of(spark, wanted.lake)
        known(source, table, wanted.queues)
        period = period_of(source, table, wanted.since, wanted.until)
        with out.status("reading"):
            if wanted.lake and table:
                history = sources.from_lake(spark, wanted.lake, period.before.since, wanted.queues)
                since = sources.lake_known_since(table)
                found = queue_settings.of_lake(table.lake)
            else:
                assert source is not None
                history = sources.from_database(spark, source, period.before.since, wanted.queues)
                since = sources.known(source).since
                found = queue_settings.of_database(source)
            # A table of Arrow's, unlike a list, takes no Python on the executors.
            queues = spark.createDataFrame(found.select(queue_settings.TIMEOUTS))
        yield Read("spark", "Spark", history, queues, period, since)
