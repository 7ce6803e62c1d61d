"""The export: what was settled since the last one goes to the lake, exactly once."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, date, timedelta
from typing import Protocol

import structlog
from pyspark.sql import SparkSession

from skipmq.analytics import jdbc, queue_settings, verify, windows
from skipmq.analytics.errors import LakeError
from skipmq.analytics.frames import as_history
from skipmq.analytics.jdbc import Source
from skipmq.analytics.lake import Lake
from skipmq.analytics.postgres import history
from skipmq.analytics.postgres.history import Server
from skipmq.database.session import Session

log = structlog.get_logger()

# How far back a failover may have undone what a standby, or a primary that is lost, had shown.
DOUBTED = timedelta(hours=1)


class Progress(Protocol):
    """Who wants to know: is called with the transactions done, those in all, and rows so far."""

    def __call__(self, done: int, total: int, rows: int) -> None:
        """Take note."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What an export did.

    Rows written, windows (commits of the lake), rows that a failover undid and that were taken
    back, days that are over and that the database now knows to be archived, files that compaction
    saved, rows that were older than is kept, `until`, the transaction up to which the lake now
    reaches, and what is wrong with files of such days that are not as they were written.
    """

    rows: int
    windows: int
    taken_back: int
    days: tuple[date, ...]
    compacted: int
    expired: int
    until: int
    damage: tuple[str, ...]


def export(  # noqa: PLR0913 - the last four have defaults.
    spark: SparkSession,
    source: Source,
    path: str,
    *,
    record: Callable[[date, int, int], bool] | None = None,
    progress: Progress | None = None,
    compact: bool = True,
    keep: int | None = None,
) -> Summary:
    """Bring the lake at `path` up to the database; return what was done.

    May be killed at any instant and run again. `record` tells the database that the lake has a day:
    so many rows, up to that transaction; it says whether that is true. Days that ended more than
    `keep` days ago are taken out of the lake, once the database has dropped them. Raises LakeError
    when the lake is another database's or somebody else writes to it, database.session.Unavailable.
    """
    source = jdbc.pinned(source)
    with source.connect() as session:
        server = history.server(session)
        lake = Lake.find(spark, path) or Lake.create(spark, path, server.database)
        if lake.table.database != server.database:
            raise LakeError(
                f"the lake at {path} has the history of the database {lake.table.database} and not"
                f" of {server.database}, whose transactions have other numbers: name another lake"
            )
        days = history.days(session)
        taken_back = _take_back(lake, session, server, days)
        start, rows, count = lake.table.position, 0, 0
        near = 0 if start else windows.beginning(session, days)
        for window, plan in windows.windows(session, start, server, near):
            frame = source.read(spark, "skipmq_views.history", plan.conditions, fetch=plan.fetch)
            frame = as_history(frame).coalesce(plan.tasks)
            lake.add(frame, window)
            rows += window.rows
            count += 1
            if progress:
                progress(window.until - start, server.horizon - start, rows)
        today = server.now.astimezone(UTC).date()
        over = {day for day in (*days, *(file.day for file in lake.files)) if day < today}
        over -= history.dropped_days(session)
        damage = verify.damage(lake.table, over)
        fewer = lake.compact(before=today, spared=damage) if compact else 0
        # What the database has yet, it could not drop otherwise.
        expired = lake.expire(min([today - timedelta(keep), *days])) if keep else 0
        lake.clear()
        queue_settings.write(lake.url, queue_settings.of_database(source))
        archived = _record(lake, over, damage, server, record) if record else ()
        found = tuple(damage.values())
        return Summary(rows, count, taken_back, archived, fewer, expired, server.horizon, found)


def _take_back(lake: Lake, session: Session, server: Server, days: list[date]) -> int:
    """Undo in the lake what a failover undid in the database: transactions that a standby had not.

    Their numbers are given out again, so that the lake goes back to the first window that differs.
    Only where the database still has all days of that window and of those after it, which go with
    it: it would lack what was dropped. Where nobody knows the timeline this compares every time.
    """
    known = lake.table.windows(DOUBTED)
    if not known or known[-1].timeline == server.timeline != 0:
        return 0
    there = set(days)
    for window in known:
        held = [file for file in lake.files if file.last >= window.first]
        if any(file.day not in there for file in held):
            continue
        same = history.total(session, window.first, window.until) == lake.total(window)
        if window.until > server.horizon or not same:
            rows = lake.rewind(window)
            log.warning(
                "took back what the server does not have, such as what a failover undid",
                taken_back=rows,
                first=window.first,
                timeline=server.timeline,
            )
            return rows
    return 0


def _record(
    lake: Lake,
    days: Collection[date],
    damage: Collection[str],
    server: Server,
    record: Callable[[date, int, int], bool],
) -> tuple[date, ...]:
    """Tell the database how many rows of each day the lake has; return the days that are whole.

    Rows of files with a damage do not count: so a day that the database has recorded before, and
    that has lost one since, is dropped no more.
    """
    held = dict.fromkeys(days, 0)
    for file in lake.files:
        if file.day in held and file.path not in damage:
            held[file.day] += file.rows
    return tuple(day for day, rows in sorted(held.items()) if record(day, rows, server.horizon))
