"""Verification of a lake against its files and its database, and repair from the database."""

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import date
from typing import TypeAlias

import pyarrow as pa
from pyarrow import fs, parquet
from pyspark.sql import SparkSession

from skipmq.analytics import delta, digest, frames, stored_rows
from skipmq.analytics.delta import Table
from skipmq.analytics.jdbc import Source
from skipmq.analytics.lake import Lake
from skipmq.analytics.postgres import history
from skipmq.analytics.table_files import File, QueueDay

# Files checked in parallel: an object store takes some 50 ms for each.
_THREADS = 16

Counts: TypeAlias = Mapping[QueueDay, int]


@dataclass(slots=True)
class Discrepancy:
    """The problems of the files of a queue and day.

    `rows` is the number of rows that were exported, `database_rows` that of the database, None if
    it no longer has the day.
    """

    day: date
    queue: str
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
        exported[file.day, file.queue] = exported.get((file.day, file.queue), 0) + file.rows
    counts = _counts(table, source) if source else None
    found: dict[QueueDay, Discrepancy] = {}

    def problems(key: QueueDay) -> list[str]:
        database_rows = None if counts is None else counts.get(key)
        discrepancy = Discrepancy(*key, exported.get(key, 0), database_rows)
        return found.setdefault(key, discrepancy).problems

    damaged = _damage(table, files)
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

    Raises LakeError if the database has changed since the check; days repaired before stay so.
    """
    lake = Lake.open(spark, path)
    for each in found:
        condition = history.queue_day_condition(each.queue, each.day, lake.table.position)
        frame = frames.selected(spark, source, condition)
        with source.connect() as session:
            expected = history.digest(session, [condition], digest.POSTGRESQL) % digest.MODULUS
        lake.replace((each.day, each.queue), frame, each.database_rows or 0, expected)


def damage(table: Table, days: Collection[date]) -> dict[QueueDay, list[str]]:
    """Return the problems of damaged files of these days, by queue and day.

    Checks the sizes of files, and the row counts in their footers.
    """
    return _damage(table, [file for file in table.files if file.day in days])


def _counts(table: Table, source: Source) -> Counts:
    with source.connect() as session:
        days = history.days(session)
        counts = history.count_by_queue_and_day(session, table.position)
        # Rows of days without a partition are in the default partition, which is not verified.
        return {key: rows for key, rows in counts.items() if key[0] in days}


def _damage(table: Table, files: Sequence[File]) -> dict[QueueDay, list[str]]:
    file_system = delta.files(table.url)

    def problem(file: File) -> str:
        info = file_system.get_file_info(file.path)
        if info.type == fs.FileType.NotFound:
            return "is missing"
        if info.size != file.size:
            return f"has {info.size} bytes of {file.size}"
        try:
            rows = parquet.read_metadata(file.path, filesystem=file_system).num_rows
        except pa.ArrowInvalid:
            rows = 0
        return "" if rows == file.rows else f"has {rows} rows of {file.rows}"

    with ThreadPoolExecutor(_THREADS) as threads:
        problems = list(zip(files, threads.map(problem, files), strict=True))
    found: dict[QueueDay, list[str]] = {}
    for file, text in problems:
        if text:
            found.setdefault(file.queue_day, []).append(f"{table.url}/{file.path} {text}")
    return found
