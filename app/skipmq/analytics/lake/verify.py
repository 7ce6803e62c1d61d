"""Verification of a lake against its files and its database, and repair from the database."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from pyspark.sql import SparkSession

from skipmq.analytics import frames
from skipmq.analytics.delta import Table
from skipmq.analytics.jdbc import Source
from skipmq.analytics.lake import digest, stored_rows
from skipmq.analytics.lake.table_files import QueueDay
from skipmq.analytics.lake.tables import Lake
from skipmq.analytics.lake.watch import watched
from skipmq.analytics.postgres import history

Counts: TypeAlias = Mapping[QueueDay, int]


@dataclass(slots=True)
class Discrepancy:
    """The problems of the files of a queue and day in a partition.

    `rows` is the number of rows that were exported, `database_rows` that of the database, None if
    it no longer has the day.
    """

    queue_day: QueueDay
    rows: int
    database_rows: int | None
    problems: list[str] = field(default_factory=list)

    @property
    def can_be_repaired(self) -> bool:
        """Whether the database still has all rows that were exported."""
        return self.database_rows is not None and self.database_rows >= self.rows


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
    counts = _counts(table, source) if source else None
    found: dict[QueueDay, Discrepancy] = {}

    def problems(key: QueueDay) -> list[str]:
        database_rows = None if counts is None else counts.get(key)
        discrepancy = Discrepancy(key, exported.get(key, 0), database_rows)
        return found.setdefault(key, discrepancy).problems

    damaged = stored_rows.damage(table, files)
    for queue_day, texts in damaged.items():
        problems(queue_day).extend(texts)
    if deep:
        for queue_day, text in stored_rows.altered(table, exported.keys() - damaged).items():
            problems(queue_day).append(text)
    for key, rows in (counts or {}).items():
        if exported.get(key, 0) != rows:
            problems(key).append(f"the lake has {exported.get(key, 0)} rows, the database {rows}")
    rows = sum(exported.values())
    return Verification(len(files), rows, [found[key] for key in sorted(found)])


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
            expected = history.digest(session, [condition], digest.POSTGRESQL) % digest.MODULUS
        with watched(spark, database):
            lake.replace(each.queue_day, frame, each.database_rows or 0, expected)


def _databases(table: Table, source: Source) -> Mapping[int, Source]:
    """Return the databases of a source, by partition; raise LakeError if it is not the lake's."""
    if source.partitions or not table.has_partitions:
        return dict(enumerate(source.databases))
    with source.connect() as session:
        return {table.partition_of(history.server(session).database): source}


def _counts(table: Table, source: Source) -> Counts:
    counts: dict[QueueDay, int] = {}
    for partition, database in _databases(table, source).items():
        with database.connect() as session:
            days = history.days(session)
            rows = history.count_by_queue_and_day(session, table.position(partition))
        # Rows of days without a partition are in the default partition, which is not verified.
        counts |= {
            QueueDay(day, queue, partition): number
            for (day, queue), number in rows.items()
            if day in days
        }
    return counts
