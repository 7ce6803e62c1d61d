"""Checking a lake against its files and its database, and mending it from the database."""

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

# Files looked at at once: an object store takes some 50 ms for each.
_AT_ONCE = 16

Counts: TypeAlias = Mapping[tuple[date, str], int]


@dataclass(slots=True)
class Wrong:
    """What is wrong with the files of a queue and day.

    `rows` is what the lake was given of them, `there` what the database has now, None where it does
    not have the day any more.
    """

    day: date
    queue: str
    rows: int
    there: int | None
    problems: list[str] = field(default_factory=list)

    @property
    def can_be_repaired(self) -> bool:
        """Whether the database has all that the lake was given."""
        return self.there is not None and self.there >= self.rows


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check has found: files of the lake, their rows, and what is wrong."""

    files: int
    rows: int
    wrong: Sequence[Wrong]


def check(table: Table, source: Source | None) -> Checked:
    """Compare all files of a lake with what was written, and with what its database counts now.

    Raises database.session.Unavailable.
    """
    files = table.files
    held: dict[tuple[date, str], int] = {}
    for file in files:
        held[file.day, file.queue] = held.get((file.day, file.queue), 0) + file.rows
    counts = _counted(table, source) if source else None
    found: dict[tuple[date, str], Wrong] = {}

    def wrong(key: tuple[date, str]) -> list[str]:
        there = None if counts is None else counts.get(key)
        return found.setdefault(key, Wrong(*key, held.get(key, 0), there)).problems

    for path, problem in _damage(table, files).items():
        file = next(file for file in files if file.path == path)
        wrong((file.day, file.queue)).append(problem)
    for key, rows in (counts or {}).items():
        if held.get(key, 0) != rows:
            wrong(key).append(f"the lake has {held.get(key, 0)} rows, the database {rows}")
    rows = sum(held.values())
    return Checked(len(files), rows, [found[key] for key in sorted(found)])


def repair(spark: SparkSession, path: str, source: Source, found: Sequence[Wrong]) -> None:
    """Export those queues' days again, in the place of the files that the lake has of them.

    Raises LakeError when the database has other rows than were counted: what was done before stays.
    """
    lake = Lake.open(spark, path)
    for wrong in found:
        old = [file for file in lake.files if (file.day, file.queue) == (wrong.day, wrong.queue)]
        condition = history.of_queue_and_day(wrong.queue, wrong.day, lake.table.position)
        lake.replace(old, frames.selected(spark, source, condition), wrong.there or 0)


def damage(table: Table, days: Collection[date]) -> dict[str, str]:
    """Return the files of these days that are not as they were written: what is wrong, by path.

    Their sizes are looked at, and how many rows their ends say there are.
    """
    return _damage(table, [file for file in table.files if file.day in days])


def _counted(table: Table, source: Source) -> Counts:
    with source.connect() as session:
        days = history.days(session)
        counted = history.count_by_queue_and_day(session, table.position)
        # What was settled on a day without a partition stays in the default one.
        return {key: rows for key, rows in counted.items() if key[0] in days}


def _damage(table: Table, files: Sequence[File]) -> dict[str, str]:
    place = delta.files(table.url)

    def wrong(file: File) -> str:
        found = place.get_file_info(file.path)
        if found.type == fs.FileType.NotFound:
            return "is missing"
        if found.size != file.size:
            return f"has {found.size} bytes of {file.size}"
        try:
            rows = parquet.read_metadata(file.path, filesystem=place).num_rows
        except pa.ArrowInvalid:
            rows = 0
        return "" if rows == file.rows else f"has {rows} rows of {file.rows}"

    with ThreadPoolExecutor(_AT_ONCE) as threads:
        found = zip(files, threads.map(wrong, files), strict=True)
    return {file.path: f"{table.url}/{file.path} {what}" for file, what in found if what}
