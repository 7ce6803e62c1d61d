"""Options of the analytics commands, and their checks."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from skipmq.analytics.postgres import history

if TYPE_CHECKING:
    from skipmq.analytics.delta import Table
    from skipmq.analytics.jdbc import Source
    from skipmq.analytics.reports.period import Period

_DAY = timedelta(days=1)
_TIME = click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M"])
ENGINE = click.option(
    "--engine",
    type=click.Choice(["auto", "duckdb", "spark"]),
    default="auto",
    help="Default: DuckDB, which needs no Java, for a lake in a local folder with up to 10,000,000"
    " rows in the period; otherwise Spark.",
)
LAKE = click.option("--lake", help="Read the lake in this local folder or Hadoop path.")
QUEUES = click.option("--queue", "queues", multiple=True, help="Only this queue; may be repeated.")
SINCE = click.option("--since", type=_TIME, help="Begin in UTC (default: a day before the end).")
UNTIL = click.option("--until", type=_TIME, help="End in UTC (default: now, or the lake's end).")
WHERE = click.option("--where", "condition", required=True, help="SQL over the history's columns.")


def check_order(since: datetime | None, until: datetime | None) -> None:
    """Raise click.UsageError if a period ends before it begins."""
    if since and until and since >= until:
        raise click.UsageError(f"--since {since} is not before --until {until}")


def check_queues(source: "Source | None", table: "Table | None", queues: Sequence[str]) -> None:
    """Raise click.UsageError for a queue that the lake, or else the database, has never had."""
    present: set[str] = set()
    if table is not None and queues:
        present = {file.queue for file in table.files}
    elif source is not None and queues:
        for database in source.databases:
            with database.connect() as session:
                present |= history.queue_names(session)
    if missing := [name for name in queues if name not in present]:
        where = f"the lake {table.lake}" if table else "the database: `skipmq queue list`"
        raise click.UsageError(f"no queue {', '.join(missing)} was ever in {where}")


def utc(moment: datetime | None) -> datetime | None:
    """Return an option's time with the time zone UTC."""
    return moment and moment.replace(tzinfo=UTC)


def report_period(
    source: "Source | None",
    table: "Table | None",
    since: datetime | None,
    until: datetime | None,
) -> "Period":
    """Return the period to report on; raise click.UsageError if it ends before it begins."""
    from skipmq.analytics.reports.period import Period  # noqa: PLC0415 - PySpark is an extra.

    end = utc(until) or (_lake_end(table) if table else now(source))
    begin = utc(since) or end - _DAY
    if begin >= end:
        raise click.UsageError(f"--since {begin:%Y-%m-%d %H:%M} is not before the end, {end}")
    return Period(begin, end)


def now(source: "Source | None") -> datetime:
    """Return the database's time."""
    assert source is not None
    with source.connect() as session:
        return history.now(session).astimezone(UTC)


def _lake_end(table: "Table") -> datetime:
    """Return the time of the last export to the lake."""
    windows = table.windows(timedelta(0))
    if not windows:
        raise click.UsageError(f"the lake {table.lake} is empty: specify --since and --until")
    return windows[-1].at.astimezone(UTC)
