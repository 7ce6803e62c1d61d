"""The export of settled messages to the lake, exactly once."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, timedelta
from itertools import chain
from typing import TypeAlias

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from skipmq.analytics import frames, jdbc, partitions, queue_settings
from skipmq.analytics.jdbc import Source, watched
from skipmq.analytics.lake import stored_rows, verify, windows
from skipmq.analytics.lake.table_files import QueueDay
from skipmq.analytics.lake.tables import Lake
from skipmq.analytics.postgres import history
from skipmq.analytics.postgres.history import RecordedDay, Server
from skipmq.database import session
from skipmq.database.session import Session
from skipmq.telemetry.logs import log

# A failover undoes at most the transactions of this time.
FAILOVER_MARGIN = timedelta(hours=1)
# The database drops a day whose rows were compared within the last day.
COMPARED_EVERY = timedelta(hours=12)

# Records a day, its row count, the exported position, and the lake's identifier and URL in a
# database, and returns whether the database has the same count.
Record: TypeAlias = Callable[[date, int, int, str, str], bool]
# Reports the transactions done, transactions in total, and rows so far.
Progress: TypeAlias = Callable[[int, int, int], None]


@dataclass(frozen=True, slots=True)
class Summary:
    """The result of an export.

    `rows` and `windows` (commits of the lake) were written, `taken_back` rows removed because a
    failover undid them, `days` recorded as archived in a database, `compacted` files saved by
    compaction, `expired` rows removed by `keep`. The lake now has the transactions before `until`,
    by partition, of which a single database is number 0. `archive` is the URL of the lake that is
    the archive if it is another one, so that no days were recorded. `damage` has the problems of
    damaged files, `lost` the days of which the lake has less than when a database dropped them,
    `unavailable` the reasons why partitions were not or not completely exported.
    `standby_lag` is None if primaries were read, and else how far the standby was behind, in
    seconds, the greatest of several: what it had not applied comes with a later export.
    """

    rows: int
    windows: int
    taken_back: int
    days: tuple[date, ...]
    compacted: int
    expired: int
    until: Mapping[int, int]
    archive: str
    damage: tuple[str, ...]
    lost: tuple[str, ...]
    unavailable: Mapping[int, str]
    standby_lag: float | None


def export(  # noqa: PLR0913 - the last six have defaults.
    spark: SparkSession,
    source: Source,
    path: str,
    *,
    record: Sequence[Record] = (),
    progress: Progress | None = None,
    compact: bool = True,
    keep: int | None = None,
    replaces: bool = False,
    rate: int | None = None,
) -> Summary:
    """Export the messages settled since the last export to the lake at `path`.

    Can be killed and repeated at any time. Partitions are exported one after the other, each window
    in a commit of its own; one that is unavailable does not hold up the others. `record` has a
    callback for each database of the source; days are recorded unless another lake is the archive,
    and this one does not replace it (`replaces`). Days that ended more than `keep` days ago are
    removed from the lake, once the databases have dropped them. `rate` is the limit on the rows
    read from a database in a second. Raises LakeError if the lake is of another database or has
    another writer, database.session.Unavailable if no database responds.
    """
    export = _Export(spark, source, replaces=replaces)
    export.open(path, record)
    export.read(progress, rate)
    export.check()
    if compact:
        export.compact()
    if keep:
        export.expire(keep)
    export.finish()
    return export.summary()


@dataclass(frozen=True, slots=True)
class _Database:
    """An available database, the number of its partition, and what it has."""

    partition: int
    source: Source
    server: Server
    days: Sequence[date]
    record: Record | None


class _Export:
    """The steps of an export, which leave out the partitions that are unavailable."""

    _lake: Lake

    def __init__(self, spark: SparkSession, source: Source, *, replaces: bool) -> None:
        self._spark, self._source, self._replaces = spark, source, replaces
        # By partition: the URL of the lake that is the archive, if it is another one.
        self._archives: dict[int, str] = {}
        self._lost: list[str] = []
        self._databases: list[_Database] = []
        self._unavailable: dict[int, str] = {}
        # By partition: the days that are over and not dropped, and what was recorded of them.
        self._past: dict[int, set[date]] = {}
        self._recorded: dict[int, Mapping[date, RecordedDay]] = {}
        self._damage: dict[QueueDay, list[str]] = {}
        self._rows = self._windows = self._taken_back = self._compacted = self._expired = 0
        self._archived: set[date] = set()

    def open(self, path: str, record: Sequence[Record]) -> None:
        """Look at the databases and open the lake; raise LakeError, session.Unavailable."""
        found: list[_Database] = []
        for partition, each in enumerate(self._source.databases):
            with self._noted(partition):
                source = jdbc.pinned(each)
                with source.connect() as connection:
                    server, days = history.server(connection), history.days(connection)
                callback = record[partition] if record else None
                found.append(_Database(partition, source, server, days, callback))
        if not found:
            raise session.Unavailable("; ".join(self._unavailable.values()))
        identifiers = {each.partition: each.server.database for each in found}
        self._lake = Lake.find(self._spark, path) or Lake.create(self._spark, path, identifiers)
        if self._source.partitions:
            self._lake.table.add_databases(identifiers)
            self._databases = found
        else:
            partition = self._lake.table.partition_of(identifiers[0])
            self._databases = [replace(found[0], partition=partition)]

    def read(self, progress: Progress | None, rate: int | None) -> None:
        """Export the windows of each database; raise LakeError."""
        starts = {each.partition: self._position(each) for each in self._databases}
        total = sum(each.server.horizon - starts[each.partition] for each in self._databases)
        for database in self._available():
            with (
                self._noted(database.partition),
                watched(self._spark, database.source),
                database.source.connect() as connection,
            ):
                self._taken_back += _rewind_after_failover(self._lake, database, connection)
                start = self._position(database)
                near = 0 if start else windows.first_position(connection, database.days)
                for window, plan in windows.windows(
                    connection, start, database.server, near, database.partition, rate=rate
                ):
                    frame = database.source.read(
                        self._spark, "skipmq_views.history", plan.conditions, fetch=plan.fetch
                    )
                    if rate:
                        frame = frames.paced(frame, rate, plan.tasks)
                    self._lake.add(frames.as_history(frame).coalesce(plan.tasks), window)
                    self._rows += window.rows
                    self._windows += 1
                    if progress:
                        starts[database.partition] = window.until
                        left = sum(d.server.horizon - starts[d.partition] for d in self._databases)
                        progress(total - left, total, self._rows)

    def check(self) -> None:
        """Look for damaged files of the days that are over."""
        days: dict[int, set[date]] = {}
        files = self._lake.files
        for file in files:
            days.setdefault(file.partition, set()).add(file.day)
        for database in self._available():
            partition = database.partition
            with self._noted(partition), database.source.connect() as connection:
                recorded = history.recorded_days(connection)
                past = {
                    day for day in (*database.days, *days.get(partition, ())) if day < self._today
                }
                archive = history.archive(recorded)
                is_other = archive and archive.lake != self._lake.table.identifier
                if archive and is_other and not self._replaces:
                    self._archives[partition] = archive.place
                dropped = {day for day, each in recorded.items() if each.dropped}
                lost = verify.lost(self._lake.table, files, recorded, partition)
                self._lost += chain.from_iterable(lost.values())
                self._past[partition], self._recorded[partition] = past - dropped, recorded
        self._damage |= stored_rows.damage(
            self._lake.table,
            [file for file in files if file.day in self._past.get(file.partition, ())],
        )

    def compact(self) -> None:
        """Compact small files."""
        self._compacted, altered = self._lake.compact(before=self._today, excluded=self._damage)
        self._damage |= {queue_day: [text] for queue_day, text in altered.items()}

    def expire(self, keep: int) -> None:
        """Remove old days, unless a database that does not respond may still have them."""
        if not self._unavailable:
            days = chain.from_iterable(each.days for each in self._databases)
            self._expired = self._lake.expire(min([self._today - timedelta(keep), *days]))

    def finish(self) -> None:
        """Delete old files, and record queues and days."""
        self._lake.clear()
        settings = []
        for database in self._available():
            with self._noted(database.partition):
                settings.append(queue_settings.from_database(database.source))
        if self._unavailable:
            before = queue_settings.from_lake(self._lake.url)
            settings.append(queue_settings.selected(before, self._unavailable))
        queue_settings.write(self._lake.url, queue_settings.merged(settings))
        for database in self._available():
            is_archive = database.partition not in self._archives
            if database.record and database.partition in self._past and is_archive:
                with self._noted(database.partition):
                    self._archive(database, database.record)

    def _archive(self, database: _Database, record: Record) -> None:
        """Record the row count of each day that is over in its database, and the complete days.

        Before it is recorded, all rows of a day are read back and compared with the digest that the
        database gave for them, also twice a day after that. Damaged rows do not count, so a day
        with some is no longer recorded and the database keeps it.
        """
        lake, server, damage = self._lake, database.server, self._damage
        recorded = self._recorded[database.partition]
        with database.source.connect() as connection:
            counts = {
                day: 0
                for day in self._past[database.partition]
                if day in database.days or history.has_rows(connection, day)
            }
        files = [
            file
            for file in lake.files
            if file.partition == database.partition and file.day in counts
        ]
        for file in files:
            counts[file.day] += file.rows
        damaged = {each.day for each in damage if each.partition == database.partition}
        known = {
            day
            for day, rows in counts.items()
            if (last := recorded.get(day))
            and (last.rows, last.lake) == (rows, lake.table.identifier)
            and server.now - last.at < COMPARED_EVERY
            and day not in damaged
        }
        compared = {
            file.queue_day
            for file in files
            if file.day not in known and file.queue_day not in damage
        }
        damage |= {queue_day: [text] for queue_day, text in lake.altered(compared).items()}
        for file in files:
            if file.queue_day in damage:
                counts[file.day] -= file.rows
        place = lake.table.identifier, lake.table.lake
        self._archived |= {
            day
            for day, rows in sorted(counts.items())
            if day in known or record(day, rows, server.horizon, *place)
        }

    def summary(self) -> Summary:
        """Return what was done."""
        lags = [d.server.lag for d in self._databases if d.server.lag is not None]
        return Summary(
            self._rows, self._windows, self._taken_back, tuple(sorted(self._archived)),
            self._compacted, self._expired,
            {each.partition: each.server.horizon for each in self._available()},
            next(iter(self._archives.values()), ""),
            tuple(chain.from_iterable(self._damage.values())), tuple(self._lost), self._unavailable,
            max(lags, default=None),
        )  # fmt: skip

    @property
    def _today(self) -> date:
        return min(each.server.now for each in self._databases).astimezone(UTC).date()

    def _position(self, database: _Database) -> int:
        return self._lake.table.position(database.partition)

    def _available(self) -> list[_Database]:
        return [each for each in self._databases if each.partition not in self._unavailable]

    @contextmanager
    def _noted(self, partition: int) -> Iterator[None]:
        """Note that a partition is unavailable if that is why the block failed."""
        try:
            yield
        except (session.Unavailable, PySparkException, Py4JError) as error:
            if not self._source.partitions:
                raise
            if not isinstance(error, session.Unavailable):
                # A task fails for many reasons.
                reason = partitions.unavailable(self._source).get(partition)
                if reason is None:
                    raise
            else:
                reason = " ".join(str(error).split())
            self._unavailable[partition] = reason


def _rewind_after_failover(lake: Lake, database: _Database, connection: Session) -> int:
    """Remove the transactions from the lake that a failover undid; return their rows.

    The new primary assigns their IDs again, so the lake is rewound to the first window that
    differs. That needs the database to still have all days of this window and the following ones.
    If the timeline is unknown, the windows are compared on every export.
    """
    server = database.server
    if lake.table.timeline(database.partition) == server.timeline != 0:
        return 0
    recent = lake.table.windows(FAILOVER_MARGIN, database.partition)
    if not recent or recent[-1].timeline == server.timeline != 0:
        return 0
    present = set(database.days)
    for window in recent:
        affected = [
            file
            for file in lake.files
            if file.partition == database.partition and file.last >= window.first
        ]
        if any(file.day not in present for file in affected):
            continue
        rows, total, _ = windows.summed(connection, window.first, window.until)
        is_equal = (rows, total) == lake.total(window)
        if window.until > server.horizon or not is_equal:
            rows = lake.rewind(window)
            log.warning(
                "removed rows that the server does not have, probably after a failover",
                taken_back=rows,
                first=window.first,
                timeline=server.timeline,
                partition=database.partition,
            )
            return rows
    return 0
