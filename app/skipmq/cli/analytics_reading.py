"""What the commands on the history share: options, what they read, how errors are told."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from skipmq.cli.analytics import spark_session, surroundings
from skipmq.config import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skipmq.analytics.jdbc import Source
    from skipmq.analytics.period import Period

_DAY = timedelta(days=1)
_TIME = click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M"])
LAKE = click.option("--lake", help="Read the lake there, a folder or any path of Hadoop's.")
QUEUES = click.option("--queue", "queues", multiple=True, help="Only this queue; repeatable.")
SINCE = click.option("--since", type=_TIME, help="Begin in UTC (default: a day before the end).")
UNTIL = click.option("--until", type=_TIME, help="End in UTC (default: now, or the lake's end).")
WHERE = click.option("--where", "condition", required=True, help="SQL over the history's columns.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def telling(command: Callable[..., Any]) -> Callable[..., Any]:
    """Turn what Spark and the parts of the analytics refuse into one line."""

    @wraps(command)
    def wrapped(*args: Any, **options: Any) -> Any:
        try:
            return command(*args, **options)
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except Exception as error:
            if reason := _reason(error):
                raise click.ClickException(reason) from error
            raise

    return wrapped


def _reason(error: Exception) -> str | None:
    """Return what to tell of an error that the user can mend."""
    # Classes by their names: PySpark may be missing.
    name = type(error).__name__
    if name in {"LakeError", "ReplayError", "AuditError"}:
        return str(error)
    if name in {"AnalysisException", "ParseException"}:
        return "Spark does not understand this: " + str(error).strip().splitlines()[0]
    return None


@contextmanager
def reading(
    settings: Settings, lake: str | None
) -> Iterator[tuple["SparkSession", "Source | None"]]:
    """Give Spark, and the database unless the lake is read and no database is named."""
    if lake and not (settings.analytics_url or settings.database_url):
        with spark_session(settings) as spark:
            yield spark, None
        return
    with surroundings(settings) as (spark, source, _):
        yield spark, source


def utc(moment: datetime | None) -> datetime | None:
    """Return a moment that the user wrote, which is in UTC."""
    return moment and moment.replace(tzinfo=UTC)


def period_of(
    spark: "SparkSession",
    source: "Source | None",
    lake: str | None,
    since: datetime | None,
    until: datetime | None,
) -> "Period":
    """Return the time to report on; raise click.UsageError when it ends before it begins."""
    from skipmq.analytics.period import Period  # noqa: PLC0415 - as all of the analytics.

    end = utc(until) or (_end_of(spark, lake) if lake else now(source))
    begin = utc(since) or end - _DAY
    if begin >= end:
        raise click.UsageError(f"--since {begin:%Y-%m-%d %H:%M} is not before the end, {end}")
    return Period(begin, end)


def now(source: "Source | None") -> datetime:
    """Return the database's time."""
    assert source is not None
    with source.connect() as connection:
        row = connection.execute("select date_trunc('second', clock_timestamp())").fetchone()
    assert row is not None
    moment: datetime = row[0]
    return moment.astimezone(UTC)


def _end_of(spark: "SparkSession", lake: str) -> datetime:
    """Return when the lake was last brought up to its database."""
    from skipmq.analytics.lake import Lake  # noqa: PLC0415

    windows = Lake.open(spark, lake).state.windows
    if not windows:
        raise click.UsageError(f"the lake at {lake} is empty: name the time, --since and --until")
    return windows[-1].at.astimezone(UTC)
