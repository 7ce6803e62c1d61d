"""The lake: the history as a Delta table, by day and queue.

    LAKE/history/_delta_log/00000000000000000007.json
    LAKE/history/export-5f1c…/day=2026-11-21/queue=orders/part-00000-….zstd.parquet

Spark writes files and reads them back, then delta-rs commits them. If a writer is killed, its files
are either committed or removed a day later.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from secrets import token_hex
from typing import Self
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from skipmq.analytics import delta, storage
from skipmq.analytics.columns import HISTORY
from skipmq.analytics.delta import PARTITIONS, File, Table, Written
from skipmq.analytics.errors import ConflictError, LakeError
from skipmq.analytics.windows import Window

# Prefix of the folders of a commit's files.
_PREFIX = "export-"
_STORED = StructType([field for field in HISTORY if field.name not in PARTITIONS])
# Target size of compacted files in bytes.
_COMPACTED_BYTES = 128 << 20
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


def read(
    spark: SparkSession, table: Table, accepts: Callable[[File], bool] = lambda _: True
) -> DataFrame:
    """Read the files of a table that `accepts` selects, with the columns of `columns.HISTORY`."""
    paths = [f"{table.url}/{file.path}" for file in table.files if accepts(file)]
    if not paths:
        # An Arrow table, unlike a list, needs no Python on the executors.
        return spark.createDataFrame(delta.SCHEMA.empty_table(), HISTORY)
    return (
        spark.read.schema(_STORED)
        .parquet(*paths)
        .withColumn("day", f.to_date("settled_at"))
        .withColumn("queue", f.regexp_extract("_metadata.file_path", "^.*/queue=([^/]+)/", 1))
        .select(*HISTORY.names)
    )


class Lake:
    """A version of a lake."""

    def __init__(self, spark: SparkSession, table: Table) -> None:
        self.spark = spark
        self.table = table

    @classmethod
    def open(cls, spark: SparkSession, path: str) -> Self:
        """Open the lake at a path that Spark accepts; raise LakeError if there is none."""
        return cls(spark, delta.open_(storage.qualified(spark, path)))

    @classmethod
    def find(cls, spark: SparkSession, path: str) -> Self | None:
        """Open the lake at a path, or return None if there is none."""
        table = delta.find(storage.qualified(spark, path))
        return cls(spark, table) if table else None

    @classmethod
    def create(cls, spark: SparkSession, path: str, database: str) -> Self:
        """Create a lake for the history of a database; raise LakeError."""
        url = storage.qualified(spark, path)
        storage.make(spark, f"{url}/{delta.NAME}")
        storage.check_shared(spark, url)
        return cls(spark, Table.create(f"{url}/{delta.NAME}", database))

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
        return read(self.spark, self.table, accepts)

    def add(self, frame: DataFrame, window: Window) -> None:
        """Add the rows of a window; raise LakeError if they do not match its counts."""
        with self._written(frame) as files:
            rows, ids = sum(file.rows for file in files), sum(file.ids for file in files)
            if (rows, ids) != (window.rows, window.ids):
                raise LakeError(
                    f"the new files have {rows} rows (sum of ids {ids}) instead of {window.rows}"
                    f" ({window.ids}): nothing has been changed; run this again"
                )
            self.table.commit("export", files, window=window)

    def replace(self, old: Sequence[File], frame: DataFrame, rows: int) -> None:
        """Replace files by a frame; raise LakeError if it does not have this number of rows."""
        with self._written(frame) as files:
            if (written := sum(file.rows for file in files)) != rows:
                raise LakeError(f"{written} rows were written of {rows}: nothing has been changed")
            self.table.commit("repair", files, old)

    def erase(self, condition: str | Column, *, reason: str) -> int:
        """Erase the rows that match an SQL condition; return their number.

        Rewrites the files that have such rows and deletes the old files. The table's log records
        the number and the reason. An export that read the database before fails with a conflict.
        """
        for remaining in reversed(range(_ATTEMPTS)):
            self.table.reopen()
            try:
                rows = self._delete(condition, "erase", reason=reason)
                break
            except ConflictError:
                if not remaining:
                    raise
        # Not a full vacuum, which would delete files that other writers are about to commit.
        self.table.vacuum(0, full=False)
        return rows

    def rewind(self, window: Window) -> int:
        """Remove a window and all following ones, to be exported again; return their rows."""
        return self._delete(f.col("xid") >= window.first, "rewind", window=window)

    def total(self, window: Window) -> tuple[int, int, int]:
        """Return the rows of a window, and the sums of IDs and of settled_at in microseconds.

        After a failover IDs and transaction IDs are assigned again, so times are compared, too.
        """
        row = (
            self.frame(lambda file: file.last >= window.first and file.first < window.until)
            .where((f.col("xid") >= window.first) & (f.col("xid") < window.until))
            .agg(
                f.count("*").alias("rows"),
                _ids(),
                f.sum(f.unix_micros("settled_at").cast("decimal(38,0)")).alias("times"),
            )
            .collect()[0]
        )
        return row["rows"], int(row["ids"] or 0), int(row["times"] or 0)

    def compact(self, *, before: date, file_limit: int = 8, excluded: Collection[str] = ()) -> int:
        """Compact the small files of each queue and day; return by how many there are fewer.

        From the day `before` on, only if there are more than `file_limit` of them. Queues and days
        with a file whose path is `excluded` are not compacted.
        """
        days: dict[date, dict[str, list[File]]] = {}
        for file in self.files:
            if file.size < _COMPACTED_BYTES // 2:
                days.setdefault(file.day, {}).setdefault(file.queue, []).append(file)
        saved = 0
        for day, queues in days.items():
            limit = 1 if day < before else file_limit
            selected = [
                queue
                for queue, files in queues.items()
                if len(files) > limit and not any(file.path in excluded for file in files)
            ]
            if selected:
                saved += self.table.compact(day, selected, _COMPACTED_BYTES)
        return saved

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
        # Skip files that have earlier transactions only.
        found = self.frame(lambda file: window is None or file.last >= window.first).where(matches)
        affected = {
            self._path(row["file"]): int(row["rows"])
            for row in found.groupBy(f.input_file_name().alias("file"))
            .agg(f.count("*").alias("rows"))
            .collect()
        }
        old = [file for file in self.files if file.path in affected]
        deleted = sum(affected.values())
        expected = sum(file.rows for file in old) - deleted
        rest = self.frame(lambda file: file.path in affected).where(~matches)
        with self._written(rest) as files:
            rows = sum(file.rows for file in files)
            if rows != expected:
                raise LakeError(f"{rows} rows were written of {expected}: nothing has been changed")
            self.table.commit(kind, files, old, window=window, rows=deleted, reason=reason)
        return deleted

    @contextmanager
    def _written(self, frame: DataFrame) -> Iterator[list[Written]]:
        """Write a frame and yield its files as they were read back.

        The files are removed if the block raises LakeError. After other errors they may have been
        committed, so they are left to `clear`.
        """
        folder = f"{self.table.url}/{_PREFIX}{token_hex(8)}"
        try:
            (
                frame.sortWithinPartitions(*PARTITIONS, "settled_at")
                .write.partitionBy(*PARTITIONS)
                .options(**_WRITE_OPTIONS)
                .parquet(folder)
            )
            settled_at, file = f.unix_micros("settled_at"), f.col("_metadata")
            rows_read = (
                self.spark.read.schema(_STORED)
                .parquet(folder)
                .groupBy(file["file_path"], file["file_size"], file["file_modification_time"])
                .agg(
                    f.count("*"),
                    _ids(),
                    f.struct(f.min("xid"), f.max("xid")),
                    f.struct(f.min(settled_at), f.max(settled_at)),
                )
                .collect()
            )
            yield [
                Written(
                    self._path(path), size, int(moment.timestamp() * 1_000_000), rows, int(ids),
                    tuple(xids), tuple(times),
                )
                for path, size, moment, rows, ids, xids, times in rows_read
            ]  # fmt: skip
        except LakeError:
            storage.remove(self.spark, folder)
            raise

    def _path(self, url: str) -> str:
        """Return the path in the table of a file's URL from Spark."""
        _, _, path = self.table.url.partition("://")[2].partition("/")
        return unquote(url).partition(f"/{path}/")[2]


def _ids() -> Column:
    return f.sum(f.col("id").cast("decimal(38,0)")).alias("ids")
