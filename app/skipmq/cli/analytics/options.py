"""Options of the analytics commands, and their checks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from skipmq.analytics.postgres import history
from skipmq.cli.output import ago

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
        try:
            return super().convert(value, param, ctx).replace(tzinfo=UTC)
        except click.BadParameter:
            self.fail(f"{value!r} is not a time{_TIMES}", param, ctx)

    def get_metavar(self, param: Any, ctx: Any) -> str:  # noqa: ARG002 - of click.
        """Return what the help names the value."""
        return "TIME"


def _midnight(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


_TIMES = " in UTC, as 2026-11-29 or 2026-11-29T12:30, or how long ago, as 6h or 2d, or yesterday"
_LAKE = "Lake in this local folder or Hadoop path (default: {})."
ENGINE = click.option(
    "--engine",
    type=click.Choice(["auto", "duckdb", "spark"]),
    default="auto",
    help="Default: DuckDB, which needs no Java, for a lake in a local folder with up to 10,000,000"
    " rows in the period; otherwise Spark.",
)
# Of commands that are about the lake, and of those that read it instead of the database.
LAKE = click.option("--lake", help=_LAKE.format("SKIPMQ_ARCHIVE"))
_FROM_LAKE = click.option("--lake", help=_LAKE.format("read the database"))
_QUEUES = click.option("--queue", "queues", multiple=True, help="Only this queue; may be repeated.")
SINCE = click.option("--since", type=_Time(), help=f"Begin: a time{_TIMES}.")
UNTIL = click.option(
    "--until", type=_Time(), help="End, in the same form (default: now, or the lake's last export)."
)
WHERE = click.option("--where", "condition", required=True, help="SQL over the history's columns.")
DRY_RUN = click.option("--dry-run", is_flag=True, help="Only show which messages are concerned.")


@dataclass(frozen=True, slots=True)
class Selection:
    """The history that a command reads: a lake's or, if `lake` is None, the database's."""

    lake: str | None
    since: Moment | None
    until: Moment | None
    queues: Sequence[str]


def selects(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of the history to read, which the command gets as its `selection`."""

    @_FROM_LAKE
    @SINCE
    @UNTIL
    @_QUEUES
    @wraps(command)
    def wrapped(
        *,
        lake: str | None,
        since: Moment | None,
        until: Moment | None,
        queues: Sequence[str],
        **options: Any,
    ) -> None:
        check_order(since, until)
        command(selection=Selection(lake, since, until, queues), **options)

    return wrapped


def output_option(about: str, *, is_folder: bool = True) -> Callable[..., Any]:
    """Return the option `--output`, a local folder or file."""
    kind = click.Path(file_okay=not is_folder, dir_okay=is_folder, path_type=Path)
    return click.option("--output", required=True, type=kind, help=about)


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
