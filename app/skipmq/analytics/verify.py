"""Verification of a lake against its files and its database, and repair from the database."""

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import date
from typing import TypeAlias

import pyarrow as pa
from pyarrow import fs, parquet
from pyspark.sql import SparkSession

from skipmq.analytics import delta, frames
from skipmq.analytics.delta import File, Table
from skipmq.analytics.jdbc import Source
from skipmq.analytics.lake import Lake
from skipmq.analytics.postgres import history

# Files checked in parallel: an object store takes some 50 ms for each.
_THREADS = 16

Counts: TypeAlias = Mapping[tuple[date, str], int]


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


def check(table: Table, source: Source | None) -> Verification:
    """Compare the files of a lake with its log, and their row counts with those of its database.

    Raises database.session.Unavailable.
    """
    files = table.files
    exported: dict[tuple[date, str], int] = {}
    for file in files:
        exported[file.day, file.queue] = exported.get((file.day, file.queue), 0) + file.rows
    counts = _counts(table, source) if source else None
    found: dict[tuple[date, str], Discrepancy] = {}

    def problems(key: tuple[date, str]) -> list[str]:
        database_rows = None if counts is None else counts.get(key)
        discrepancy = Discrepancy(*key, exported.get(key, 0), database_rows)
        return found.setdefault(key, discrepancy).problems

    for path, problem in _damage(table, files).items():
        file = next(file for file in files if file.path == path)
        problems((file.day, file.queue)).append(problem)
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
        old = [file for file in lake.files if (file.day, file.queue) == (each.day, each.queue)]
        condition = history.queue_day_condition(each.queue, each.day, lake.table.position)
        lake.replace(old, frames.selected(spark, source, condition), each.database_rows or 0)


def damage(table: Table, days: Collection[date]) -> dict[str, str]:
    """Return the problems of damaged files of these days, by path.

    Checks the sizes of files, and the row counts in their footers.
    """
    return _damage(table, [file for file in table.files if file.day in days])


def _counts(table: Table, source: Source) -> Counts:
    with source.connect() as session:
        days = history.days(session)
        counts = history.count_by_queue_and_day(session, table.position)
        # Rows of days without a partition are in the default partition, which is not verified.
        return {key: rows for key, rows in counts.items() if key[0] in days}


def _damage(table: Table, files: Sequence[File]) -> dict[str, str]:
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
        problems = zip(files, threads.map(problem, files), strict=True)
    return {file.path: f"{table.url}/{file.path} {text}" for file, text in problems if text}
