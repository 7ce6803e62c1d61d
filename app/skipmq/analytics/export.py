"""The export of settled messages to the lake, exactly once."""

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

# A failover undoes at most the transactions of this time.
FAILOVER_MARGIN = timedelta(hours=1)


class Progress(Protocol):
    """A progress callback."""

    def __call__(self, done: int, total: int, rows: int) -> None:
        """Report transactions done, transactions in total, and rows so far."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The result of an export.

    `rows` and `windows` (commits of the lake) were written, `taken_back` rows removed because a
    failover undid them, `days` recorded as archived in the database, `compacted` files saved by
    compaction, `expired` rows removed by `keep`. The lake now has the transactions before `until`.
    `damage` has the problems of damaged files.
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
    """Export the messages settled since the last export to the lake at `path`.

    Can be killed and repeated at any time. `record` records a day, its row count and the exported
    position in the database, and returns whether the database has the same count. Days that ended
    more than `keep` days ago are removed from the lake, once the database has dropped them. Raises
    LakeError if the lake is of another database or has another writer,
    database.session.Unavailable.
    """
    source = jdbc.pinned(source)
    with source.connect() as session:
        server = history.server(session)
        lake = Lake.find(spark, path) or Lake.create(spark, path, server.database)
        if lake.table.database != server.database:
            raise LakeError(
                f"the lake at {path} has the history of the database {lake.table.database} and not"
                f" of {server.database}, which numbers transactions differently: use another lake"
            )
        days = history.days(session)
        taken_back = _rewind_after_failover(lake, session, server, days)
        start, rows, count = lake.table.position, 0, 0
        near = 0 if start else windows.first_position(session, days)
        for window, plan in windows.windows(session, start, server, near):
            frame = source.read(spark, "skipmq_views.history", plan.conditions, fetch=plan.fetch)
            frame = as_history(frame).coalesce(plan.tasks)
            lake.add(frame, window)
            rows += window.rows
            count += 1
            if progress:
                progress(window.until - start, server.horizon - start, rows)
        today = server.now.astimezone(UTC).date()
        past = {day for day in (*days, *(file.day for file in lake.files)) if day < today}
        past -= history.dropped_days(session)
        damage = verify.damage(lake.table, past)
        saved = lake.compact(before=today, excluded=damage) if compact else 0
        # The database can only drop days that the lake has.
        expired = lake.expire(min([today - timedelta(keep), *days])) if keep else 0
        lake.clear()
        queue_settings.write(lake.url, queue_settings.from_database(source))
        archived = _record(lake, past, damage, server, record) if record else ()
        problems = tuple(damage.values())
        return Summary(rows, count, taken_back, archived, saved, expired, server.horizon, problems)


def _rewind_after_failover(lake: Lake, session: Session, server: Server, days: list[date]) -> int:
    """Remove the transactions from the lake that a failover undid; return their rows.

    The new primary assigns their IDs again, so the lake is rewound to the first window that
    differs. That needs the database to still have all days of this window and the following ones.
    If the timeline is unknown, the windows are compared on every export.
    """
    recent = lake.table.windows(FAILOVER_MARGIN)
    if not recent or recent[-1].timeline == server.timeline != 0:
        return 0
    present = set(days)
    for window in recent:
        affected = [file for file in lake.files if file.last >= window.first]
        if any(file.day not in present for file in affected):
            continue
        is_equal = history.total(session, window.first, window.until) == lake.total(window)
        if window.until > server.horizon or not is_equal:
            rows = lake.rewind(window)
            log.warning(
                "removed rows that the server does not have, probably after a failover",
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
    """Record the row count of each day in the database; return the days that are complete.

    Damaged files do not count, so a day with one is no longer recorded and the database keeps it.
    """
    counts = dict.fromkeys(days, 0)
    for file in lake.files:
        if file.day in counts and file.path not in damage:
            counts[file.day] += file.rows
    return tuple(day for day, rows in sorted(counts.items()) if record(day, rows, server.horizon))
