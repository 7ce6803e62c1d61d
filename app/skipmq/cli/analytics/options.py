"""Options of the analytics commands, and their checks."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from skipmq.analytics.postgres import history
from skipmq.cli.times import ago

if TYPE_CHECKING:
    from skipmq.analytics.delta import Table
    from skipmq.analytics.jdbc import Source
    from skipmq.analytics.reports.period import Period

# A time, or a function of the present, which is known when the source is open.
Moment: TypeAlias = datetime | Callable[[datetime], datetime]

_DAY = timedelta(days=1)
_DAYS_AGO = {"today": 0, "yesterday": 1}


class _Time(click.DateTime):
    """A time in UTC, or one before the present: 90m, 6h, 2d, 1w, today or yesterday."""

    def __init__(self) -> None:
        super().__init__(["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M"])

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the Moment of an option's text."""
        if value in _DAYS_AGO:
            return lambda present: _midnight(present) - _DAYS_AGO[value] * _DAY
        if (length := ago(str(value))) is not None:
            return lambda present: present - length
        return super().convert(value, param, ctx).replace(tzinfo=UTC)

    def get_metavar(self, param: Any, ctx: Any) -> str:  # noqa: ARG002 - of click.
        """Return what the help names the value."""
        return "TIME"


def _midnight(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


_AGO = "in UTC, or how long ago, as 6h or 2d, or yesterday"
ENGINE = click.option(
    "--engine",
    type=click.Choice(["auto", "duckdb", "spark"]),
    default="auto",
    help="Default: DuckDB, which needs no Java, for a lake in a local folder with up to 10,000,000"
    " rows in the period; otherwise Spark.",
)
LAKE = click.option("--lake", help="Read the lake in this local folder or Hadoop path.")
QUEUES = click.option("--queue", "queues", multiple=True, help="Only this queue; may be repeated.")
SINCE = click.option(
    "--since",
    type=_Time(),
    help=f"Begin {_AGO} (default of reports: a day before the end, or where the history begins).",
)
UNTIL = click.option(
    "--until", type=_Time(), help=f"End {_AGO} (default: now, or the lake's last export)."
)
WHERE = click.option("--where", "condition", required=True, help="SQL over the history's columns.")


def check_order(since: Moment | None, until: Moment | None) -> None:
    """Raise click.UsageError if a period ends before it begins."""
    if isinstance(since, datetime) and isinstance(until, datetime) and since >= until:
        raise click.UsageError(
            f"--since {since:%Y-%m-%d %H:%M:%S} is not before --until {until:%Y-%m-%d %H:%M:%S}"
        )


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


def bounds(
    source: "Source | None", table: "Table | None", since: Moment | None, until: Moment | None
) -> tuple[datetime | None, datetime | None]:
    """Return the times of options, relative ones by the database's clock or the lake's end."""
    times = [each(_present(source, table)) if callable(each) else each for each in (since, until)]
    check_order(*times)
    return times[0], times[1]


def report_period(
    source: "Source | None", table: "Table | None", since: Moment | None, until: Moment | None
) -> "Period":
    """Return the period to report on; raise click.UsageError if it ends before it begins."""
    from skipmq.analytics.reports.period import Period  # noqa: PLC0415 - PySpark is an extra.

    begin, end = bounds(source, table, since, until)
    end = end or _present(source, table)
    begin = begin or _first_begin(source, table, end)
    if begin >= end:
        raise click.UsageError(f"--since {begin:%Y-%m-%d %H:%M} is not before the end, {end}")
    return Period(begin, end)


def _first_begin(source: "Source | None", table: "Table | None", end: datetime) -> datetime:
    """Return a day before the end, or the ten minutes in which a younger history begins."""
    from skipmq.analytics import sources  # noqa: PLC0415 - an extra.

    begin, first = end - _DAY, sources.history_begin(source, table)
    if first is None or not begin < first < end:
        return begin
    first = first.astimezone(UTC)
    return first.replace(minute=first.minute // 10 * 10, second=0, microsecond=0)


def _present(source: "Source | None", table: "Table | None") -> datetime:
    return _lake_end(table) if table else now(source)


def now(source: "Source | None") -> datetime:
    """Return the database's time."""
    assert source is not None
    with source.connect() as session:
        return history.now(session).astimezone(UTC)


def _lake_end(table: "Table") -> datetime:
    """Return the time of the last export to the lake, or the end of the last day in it."""
    from skipmq.analytics.reports.period import day_bounds  # noqa: PLC0415 - an extra.

    if windows := table.windows(timedelta(0)):
        return windows[-1].at.astimezone(UTC)
    # The log has no export when its old entries have expired, or others have written the table.
    if not (files := table.files):
        raise click.UsageError(f"the lake {table.lake} is empty: specify --since and --until")
    return day_bounds(files[-1].day)[1]
