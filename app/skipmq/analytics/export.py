"""The export of settled messages to the lake, exactly once."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, timedelta
from itertools import chain
from typing import Protocol

from pyspark.sql import SparkSession

from skipmq.analytics import jdbc, queue_settings, stored_rows, verify, windows
from skipmq.analytics.errors import LakeError
from skipmq.analytics.frames import as_history
from skipmq.analytics.jdbc import Source
from skipmq.analytics.lake import Lake
from skipmq.analytics.postgres import history
from skipmq.analytics.postgres.history import RecordedDay, Server
from skipmq.analytics.table_files import QueueDay
from skipmq.database.session import Session
from skipmq.telemetry.logs import log

# A failover undoes at most the transactions of this time.
FAILOVER_MARGIN = timedelta(hours=1)
# The database drops a day whose rows were compared within the last day.
COMPARED_EVERY = timedelta(hours=12)


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
    `damage` has the problems of damaged files. `standby_lag` is None if a primary was read, and
    else how far the standby was behind, in seconds: what it had not applied comes with a later
    export.
    """

    rows: int
    windows: int
    taken_back: int
    days: tuple[date, ...]
    compacted: int
    expired: int
    until: int
    damage: tuple[str, ...]
    standby_lag: float | None


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
        recorded = history.recorded_days(session)
        past = {day for day in (*days, *(file.day for file in lake.files)) if day < today}
        past -= {day for day, each in recorded.items() if each.dropped}
        damage = verify.damage(lake.table, past)
        saved = 0
        if compact:
            saved, altered = lake.compact(before=today, excluded=damage)
            damage |= {queue_day: [text] for queue_day, text in altered.items()}
        # The database can only drop days that the lake has.
        expired = lake.expire(min([today - timedelta(keep), *days])) if keep else 0
        lake.clear()
        queue_settings.write(lake.url, queue_settings.from_database(source))
        archived: Sequence[date] = ()
        if record:
            kept = {day for day in past if day in days or history.has_rows(session, day)}
            archived = _archived(lake, kept, recorded, damage, server, record)
        problems = tuple(chain.from_iterable(damage.values()))
        return Summary(
            rows, count, taken_back, tuple(archived), saved, expired, server.horizon, problems,
            server.lag,
        )  # fmt: skip


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
        rows, total, _ = windows.summed(session, window.first, window.until)
        is_equal = (rows, total) == lake.total(window)
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


def _archived(  # noqa: PLR0913, PLR0917 - what an export knows.
    lake: Lake,
    days: Collection[date],
    recorded: Mapping[date, RecordedDay],
    damage: dict[QueueDay, list[str]],
    server: Server,
    record: Callable[[date, int, int], bool],
) -> Sequence[date]:
    """Record the row count of each day in the database; return the days that are complete.

    Before it is recorded, all rows of a day are read back and compared with the digest that the
    database gave for them, also twice a day after that. Damaged rows do not count, so a day with
    some is no longer recorded and the database keeps it. Adds the problems found to `damage`.
    """
    counts = dict.fromkeys(days, 0)
    for file in lake.files:
        if file.day in counts:
            counts[file.day] += file.rows
    damaged = {day for day, _ in damage}
    known = {
        day
        for day, rows in counts.items()
        if (last := recorded.get(day))
        and last.rows == rows
        and server.now - last.at < COMPARED_EVERY
        and day not in damaged
    }
    compared = {
        file.queue_day
        for file in lake.files
        if file.day in counts and file.day not in known and file.queue_day not in damage
    }
    altered = stored_rows.altered(lake.table, compared)
    damage |= {queue_day: [text] for queue_day, text in altered.items()}
    for file in lake.files:
        if file.day in counts and file.queue_day in damage:
            counts[file.day] -= file.rows
    return [
        day
        for day, rows in sorted(counts.items())
        if day in known or record(day, rows, server.horizon)
    ]
