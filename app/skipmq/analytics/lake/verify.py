"""Verification of a lake against its files and its database, and repair from the database."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum

from pyspark.sql import SparkSession

from skipmq.analytics import frames
from skipmq.analytics.columns import DIGEST_MODULUS, POSTGRESQL_DIGEST
from skipmq.analytics.delta import Table
from skipmq.analytics.jdbc import Source, watched
from skipmq.analytics.lake import stored_rows
from skipmq.analytics.lake.table_files import File, QueueDay
from skipmq.analytics.lake.tables import Lake
from skipmq.analytics.postgres import history
from skipmq.analytics.postgres.history import RecordedDay

# In place of the name of a queue.
ALL_QUEUES = "*"


class Asked(StrEnum):
    """What a database has of a queue and day of a lake."""

    NOT_ASKED = "not asked"
    DROPPED = "dropped"
    EQUAL = "equal"
    FEWER = "fewer"
    MORE = "more"


@dataclass(slots=True)
class Discrepancy:
    """The problems of the files of a queue and day in a partition.

    `rows` is the number of rows that were exported, `database_rows` that of the database, None if
    it was not asked, or has dropped the day.
    """

    queue_day: QueueDay
    rows: int
    asked: Asked
    database_rows: int | None = None
    problems: list[str] = field(default_factory=list)

    @property
    def can_be_repaired(self) -> bool:
        """Whether the database still has all rows that were exported."""
        return self.asked in {Asked.EQUAL, Asked.MORE}


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of a check: the number of files and rows, and the discrepancies."""

    files: int
    rows: int
    discrepancies: Sequence[Discrepancy]


def check(table: Table, source: Source | None, *, deep: bool = False) -> Verification:
    """Compare the files of a lake with its log, and their row counts with those of its database.

    With `deep` also reads all rows and compares their digests. Raises database.session.Unavailable.
    """
    files = table.files
    exported: dict[QueueDay, int] = {}
    for file in files:
        exported[file.queue_day] = exported.get(file.queue_day, 0) + file.rows
    held = _held(table, files, source) if source else None
    keys = exported.keys() | (held.counts.keys() if held else set())
    found = {key: _compared(key, exported.get(key, 0), held) for key in sorted(keys)}
    damaged = stored_rows.damage(table, files)
    for queue_day, texts in damaged.items():
        found[queue_day].problems += texts
    if deep:
        for queue_day, text in stored_rows.altered(table, exported.keys() - damaged).items():
            found[queue_day].problems.append(text)
    for each in found.values():
        if each.asked in {Asked.FEWER, Asked.MORE}:
            numbers = f"the lake has {each.rows} rows, the database {each.database_rows}"
            each.problems.append(numbers)
    for key, texts in (held.lost if held else {}).items():
        found[key] = Discrepancy(key, 0, Asked.DROPPED, problems=texts)
    wrong = [each for each in found.values() if each.problems]
    return Verification(len(files), sum(exported.values()), wrong)


def repair(spark: SparkSession, path: str, source: Source, found: Sequence[Discrepancy]) -> None:
    """Export the days of these queues again, and replace the lake's files of them.

    Raises LakeError if the database has changed since the check, database.session.Unavailable if it
    freezes; days repaired before stay so.
    """
    lake = Lake.open(spark, path)
    databases = _databases(lake.table, source)
    for each in found:
        day, queue, partition = each.queue_day
        database = databases[partition]
        condition = history.queue_day_condition(queue, day, lake.table.position(partition))
        frame = frames.selected(spark, database, condition)
        with database.connect() as session:
            expected = history.digest(session, [condition], POSTGRESQL_DIGEST) % DIGEST_MODULUS
        with watched(spark, database):
            lake.replace(each.queue_day, frame, each.database_rows or 0, expected)


def _databases(table: Table, source: Source) -> Mapping[int, Source]:
    """Return the databases of a source, by partition; raise LakeError if it is not the lake's."""
    if source.partitions:
        return dict(enumerate(source.databases))
    with source.connect() as session:
        return {table.partition_of(history.server(session).database): source}


@dataclass(frozen=True, slots=True)
class _Held:
    """The rows that databases have, up to what was exported: by queue and day, and their days.

    A day is of a partition. One without rows and without a place for them was dropped. `lost` has
    the days of which the lake has less than it had when they were dropped.
    """

    counts: Mapping[QueueDay, int]
    days: Collection[tuple[date, int]]
    partitions: Collection[int]
    lost: Mapping[QueueDay, list[str]]


def _compared(key: QueueDay, rows: int, held: _Held | None) -> Discrepancy:
    if held is None or key.partition not in held.partitions:
        return Discrepancy(key, rows, Asked.NOT_ASKED)
    if (key.day, key.partition) not in held.days:
        return Discrepancy(key, rows, Asked.DROPPED)
    there = held.counts.get(key, 0)
    asked = Asked.EQUAL if there == rows else Asked.FEWER if there < rows else Asked.MORE
    return Discrepancy(key, rows, asked, there)


def _held(table: Table, files: Sequence[File], source: Source) -> _Held:
    counts: dict[QueueDay, int] = {}
    days: set[tuple[date, int]] = set()
    missing: dict[QueueDay, list[str]] = {}
    databases = _databases(table, source)
    for partition, database in databases.items():
        with database.connect() as session:
            rows = history.count_by_queue_and_day(session, table.position(partition))
            # Afterwards: a day that is dropped in between has no rows less.
            days |= {(day, partition) for day in history.days(session)}
            missing |= lost(table, files, history.recorded_days(session), partition)
        # Rows of days without a partition are in the default partition.
        days |= {(day, partition) for day, _ in rows}
        counts |= {QueueDay(day, queue, partition): n for (day, queue), n in rows.items()}
    return _Held(counts, days, databases, missing)


def lost(
    table: Table, files: Sequence[File], recorded: Mapping[date, RecordedDay], partition: int
) -> dict[QueueDay, list[str]]:
    """Return the days of a partition of which the lake has fewer rows than when they were dropped.

    A lake that was restored from an older backup lacks rows. Days that it has expired are left out.
    """
    rows: dict[date, int] = {}
    for file in files:
        if file.partition == partition:
            rows[file.day] = rows.get(file.day, 0) + file.rows
    return {
        QueueDay(day, ALL_QUEUES, partition): [
            f"{table.lake} has {rows.get(day, 0)} of the {each.rows} rows of {day}, which the"
            " database has dropped"
        ]
        for day, each in recorded.items()
        if each.dropped
        and each.lake == table.identifier
        and day >= table.expired
        and rows.get(day, 0) < each.rows
    }
