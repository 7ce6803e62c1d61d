"""The lake: the history as a Delta table, by day and queue.

    LAKE/history/_delta_log/00000000000000000007.json
    LAKE/history/export-5f1c…/day=2026-11-21/queue=orders/part-00000-….zstd.parquet

Spark writes files, DuckDB reads them back, then delta-rs commits them. If a writer is killed, its
files are either committed or removed a day later.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import date
from secrets import token_hex
from typing import Self
from urllib.parse import unquote

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from skipmq.analytics import delta
from skipmq.analytics.columns import DIGEST_MODULUS, HISTORY, PARTITION, SPARK_DIGEST
from skipmq.analytics.delta import PARTITIONS, Table
from skipmq.analytics.errors import ConflictError, LakeError
from skipmq.analytics.lake import storage, stored_rows
from skipmq.analytics.lake.table_files import File, QueueDay, Written
from skipmq.analytics.lake.windows import Window
from skipmq.database.partitions import QUEUE_BITS

# Prefix of the folders of a commit's files.
_PREFIX = "export-"
# The folder of a file, without its `queue=`: a regular expression for each row takes much longer.
_QUEUE = "substr(substring_index(substring_index(_metadata.file_path, '/', -2), '/', 1), 7)"
_STORED = StructType([field for field in HISTORY if field.name not in PARTITIONS])
# Target size of compacted files in bytes.
_COMPACTED_BYTES = 128 << 20
# Files of a queue and a day that is not over which are not compacted.
_MOST_FILES = 8
_MAXIMUM_ROWS_PER_FILE = 5_000_000
# Attempts of an erasure while there are other writers.
_ATTEMPTS = 5
# A dictionary is useless for columns with nearly unique values.
_UNIQUE = ("settled_at", "sent_at", "first_received_at", "id", "message_id")
_WRITE_OPTIONS = {
    "compression": "zstd",
    "maxRecordsPerFile": str(_MAXIMUM_ROWS_PER_FILE),
    **{f"parquet.enable.dictionary#{name}": "false" for name in _UNIQUE},
    # Parquet has checksums; Hadoop's take another file and a `chmod` for each file.
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}


class Lake:
    """A version of a lake."""

    def __init__(self, spark: SparkSession, table: Table) -> None:
        self.spark = spark
        self.table = table
        # The digests of files that were read, by path.
        self._known: dict[str, int] = {}

    @classmethod
    def open(cls, spark: SparkSession, path: str) -> Self:
        """Open the lake at a path that Spark accepts; raise LakeError if there is none."""
        return cls(spark, delta.open_(storage.qualified(spark, path)))

    @classmethod
    def find(cls, spark: SparkSession, path: str) -> Self | None:
        """Open the lake at a path to write to it, or return None if there is none.

        Adds the columns that it lacks. Raises LakeError if it has columns of other types.
        """
        table = delta.find(storage.qualified(spark, path))
        if table is None:
            return None
        table.add_columns()
        return cls(spark, table)

    @classmethod
    def create(cls, spark: SparkSession, path: str, databases: Mapping[int, str]) -> Self:
        """Create a lake for the history of databases, by partition; raise LakeError."""
        url = storage.qualified(spark, path)
        storage.make(spark, f"{url}/{delta.NAME}")
        storage.check_shared(spark, url)
        return cls(spark, Table.create(f"{url}/{delta.NAME}", databases))

    @property
    def url(self) -> str:
        """The URL of the lake."""
        return self.table.lake

    @property
    def files(self) -> Sequence[File]:
        """The files in the order of days and queues."""
        return self.table.files

    def frame(self, accepts: Callable[[File], bool] = lambda _: True) -> DataFrame:
        """Read the files that `accepts` selects, with the columns of `columns.HISTORY`."""
        paths = [f"{self.table.url}/{file.path}" for file in self.files if accepts(file)]
        if not paths:
            # An Arrow table, unlike a list, needs no Python on the executors.
            return self.spark.createDataFrame(delta.SCHEMA.empty_table(), HISTORY)
        return (
            self.spark.read.schema(_STORED)
            .option("parquet.page.verify-checksum.enabled", "true")
            .parquet(*paths)
            # Spark would take a queue of digits for a number.
            .withColumn("queue", f.expr(_QUEUE))
            .withColumns({"day": f.to_date("settled_at"), "partition": f.expr(PARTITION)})
            .selectExpr(*HISTORY.names)
        )

    def add(self, frame: DataFrame, window: Window) -> None:
        """Add the rows of a window; raise LakeError if they do not match its counts."""
        with self._written(frame) as files:
            owners = {number >> QUEUE_BITS for file in files for number in file.queue_ids}
            if self.table.has_partitions and owners != {window.partition}:
                raise LakeError(
                    f"partition {window.partition} has queues of another one: nothing has been"
                    " changed; see `skipmq partitions doctor`"
                )
            rows, total = sum(file.rows for file in files), sum(file.digest for file in files)
            if (rows, total % DIGEST_MODULUS) != (window.rows, window.digest):
                raise LakeError(
                    f"the {rows} rows of the new files are not the {window.rows} rows of the"
                    " database: nothing has been changed; run this again"
                )
            self.table.commit("export", files, window=window)

    def replace(self, queue_day: QueueDay, frame: DataFrame, rows: int, expected: int) -> None:
        """Replace the rows of a queue and day; raise LakeError unless they have this digest."""
        with self._written(frame) as files:
            written, total = sum(file.rows for file in files), sum(file.digest for file in files)
            if (written, total % DIGEST_MODULUS) != (rows, expected):
                raise LakeError(f"{written} rows were written of {rows}: nothing has been changed")
            old = [file for file in self.files if file.queue_day == queue_day]
            self.table.commit("repair", files, old, digests={queue_day: expected})

    def erase(self, condition: str | Column, *, reason: str) -> int:
        """Erase the rows that match an SQL condition; return their number.

        Rewrites the files that have such rows and deletes all older files that the table no longer
        has or never had, such as those of an export that was killed. The table's log records the
        number and the reason. An export that read the database before fails with a conflict.
        """
        for remaining in reversed(range(_ATTEMPTS)):
            self.table.reopen()
            try:
                rows = self._delete(condition, "erase", reason=reason)
                break
            except ConflictError:
                if not remaining:
                    raise
        # Writers that began before this commit cannot commit, so their files can be removed, too.
        committed = [file.path for file in self.files]
        storage.remove_uncommitted(self.spark, self.table.url, committed, self.table.version)
        return rows

    def count(self, condition: str) -> dict[tuple[date, int], int]:
        """Count the rows that match an SQL condition, by day and partition."""
        rows = self.frame().where(condition).groupBy("day", "partition").count().collect()
        return {(row["day"], row["partition"] or 0): row["count"] for row in rows}

    def rewind(self, window: Window) -> int:
        """Remove a window and the following ones of its partition, to be exported again.

        Returns the number of their rows.
        """
        return self._delete(f.col("xid") >= window.first, "rewind", window=window)

    def total(self, window: Window) -> tuple[int, int]:
        """Return the number of rows of a window, and their digest, which has their times.

        After a failover IDs and transaction IDs are assigned again.
        """
        row = (
            self.frame(
                lambda file: (
                    file.partition == window.partition
                    and file.last >= window.first
                    and file.first < window.until
                )
            )
            .where((f.col("xid") >= window.first) & (f.col("xid") < window.until))
            .agg(f.count("*").alias("rows"), f.expr(SPARK_DIGEST).alias("digest"))
            .collect()[0]
        )
        return row["rows"], int(row["digest"]) % DIGEST_MODULUS

    def altered(self, queue_days: Collection[QueueDay]) -> dict[QueueDay, str]:
        """Return the problems of queues and days whose rows are not those that were committed.

        Files that this object has written or read are not read again.
        """
        return stored_rows.altered(self.table, queue_days, self._known)

    def compact(
        self, *, before: date, excluded: Collection[QueueDay] = ()
    ) -> tuple[int, dict[QueueDay, str]]:
        """Compact the small files of each queue and day.

        Returns by how many files there are fewer, and the problems of queues and days whose rows
        are not those that were committed, before or after it; the former are not compacted, nor
        are those `excluded`. From the day `before` on, only more than _MOST_FILES files are.
        """
        small: dict[QueueDay, int] = {}
        for file in self.files:
            if file.size < _COMPACTED_BYTES // 2 and file.queue_day not in excluded:
                small[file.queue_day] = small.get(file.queue_day, 0) + 1
        selected = [
            queue_day
            for queue_day, files in small.items()
            if files > (1 if queue_day[0] < before else _MOST_FILES)
        ]
        altered = self.altered(selected)
        compacted = [queue_day for queue_day in selected if queue_day not in altered]
        owners: dict[tuple[date, str], set[int]] = {}
        for file in self.files:
            owners.setdefault((file.day, file.queue), set()).add(file.partition)
        saved, days = 0, dict[date, list[str]]()
        for day, queue, partition in compacted:
            if len(owners[day, queue]) == 1:
                days.setdefault(day, []).append(queue)
            else:
                saved += self._merge(QueueDay(day, queue, partition))
        saved += sum(self.table.compact(day, days[day], _COMPACTED_BYTES) for day in days)
        return saved, altered | self.altered(compacted)

    def _merge(self, queue_day: QueueDay) -> int:
        """Compact a queue and day of which another partition has files; return the files saved.

        The table's own compaction would merge the files of both.
        """
        old = {
            file
            for file in self.files
            if file.queue_day == queue_day and file.size < _COMPACTED_BYTES // 2
        }
        expected = sum(file.rows for file in old)
        with self._written(self.frame(old.__contains__).coalesce(1)) as files:
            if (rows := sum(file.rows for file in files)) != expected:
                raise LakeError(f"{rows} rows were written of {expected}: nothing has been changed")
            self.table.commit("compact", files, list(old), digests={})
        return len(old) - len(files)

    def expire(self, before: date) -> int:
        """Remove the days before this one; return their rows."""
        rows = sum(file.rows for file in self.files if file.day < before)
        if rows:
            self.table.expire(before)
        return rows

    def clear(self, hours: int = 24) -> None:
        """Delete files removed `hours` ago, and the uncommitted files of writers that died."""
        storage.remove_unfinished(self.spark, self.table.url, _PREFIX, hours)
        self.table.vacuum(hours, full=True)

    def _delete(
        self, condition: str | Column, kind: str, *, reason: str = "", window: Window | None = None
    ) -> int:
        matches = f.expr(condition) if isinstance(condition, str) else condition
        matches = f.coalesce(matches, f.lit(False))  # noqa: FBT003 - PySpark's signature.
        # Skip files of other partitions, and those that have earlier transactions only.
        found = self.frame(
            lambda file: (
                window is None or (file.partition == window.partition and file.last >= window.first)
            )
        ).where(matches)
        affected = {
            self._path(path): (int(rows), int(total))
            for path, rows, total in found.groupBy(f.input_file_name())
            .agg(f.count("*"), f.expr(SPARK_DIGEST))
            .collect()
        }
        old = [file for file in self.files if file.path in affected]
        deleted = sum(rows for rows, _ in affected.values())
        digests: dict[QueueDay, int] = {}
        for file in old:
            digests[file.queue_day] = digests.get(file.queue_day, 0) - affected[file.path][1]
        expected = sum(file.rows for file in old) - deleted
        with ExitStack() as stack:
            files: list[Written] = []
            # A file has rows of one partition.
            for partition in sorted({file.partition for file in old}):
                kept = {file for file in old if file.partition == partition}
                rest = self.frame(kept.__contains__).where(~matches)
                files += stack.enter_context(self._written(rest))
            rows = sum(file.rows for file in files)
            if rows != expected:
                raise LakeError(f"{rows} rows were written of {expected}: nothing has been changed")
            self.table.commit(
                kind, files, old, window=window, digests=self.table.changed(digests),
                rows=deleted, reason=reason,
            )  # fmt: skip
        return deleted

    @contextmanager
    def _written(self, frame: DataFrame) -> Iterator[list[Written]]:
        """Write a frame and yield its files as they were read back.

        The files are removed if the block raises LakeError. After other errors they may have been
        committed, so they are left to `clear`.
        """
        name = f"{_PREFIX}{token_hex(8)}"
        folder = f"{self.table.url}/{name}"
        try:
            (
                frame.sortWithinPartitions(*PARTITIONS, "settled_at")
                .write.partitionBy(*PARTITIONS)
                .options(**_WRITE_OPTIONS)
                .parquet(folder)
            )
            files = stored_rows.written(self.table, name)
        except (PySparkException, Py4JError, *stored_rows.DAMAGED) as error:
            # An erasure removes the files of writers that began before it.
            if self.table.is_newest:
                raise
            raise ConflictError from error
        self._known |= {file.path: file.digest for file in files}
        try:
            yield files
        except LakeError:
            storage.remove(self.spark, folder)
            raise

    def _path(self, url: str) -> str:
        """Return the path in the table of a file's URL from Spark."""
        _, _, path = self.table.url.partition("://")[2].partition("/")
        return unquote(url).partition(f"/{path}/")[2]
