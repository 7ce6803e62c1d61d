"""The lake: the history as a Delta table, by day and queue.

    LAKE/history/_delta_log/00000000000000000007.json
    LAKE/history/export-5f1c…/day=2026-11-21/queue=orders/part-00000-….zstd.parquet

Spark writes files, reads back what is in them, and commits them through delta-rs. Killed at any
moment it has committed or not; files that belong to no commit are removed a day later.
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

# Beginning of the folder that one commit's files are written to.
_PREFIX = "export-"
_STORED = StructType([field for field in HISTORY if field.name not in PARTITIONS])
# Bytes that a compacted file is to have, about.
BIG = 128 << 20
# Rows of a file, at most.
MOST_ROWS = 5_000_000
# How often an erasure is tried while others write.
_TRIES = 5
# No two rows, or hardly two, have the same in these: a dictionary of them is built in vain.
_DISTINCT = ("settled_at", "sent_at", "first_received_at", "id", "message_id")
_WRITING = {
    "compression": "zstd",
    "maxRecordsPerFile": str(MOST_ROWS),
    **{f"parquet.enable.dictionary#{name}": "false" for name in _DISTINCT},
    # Parquet has checksums of its own; Hadoop's cost a file, and a `chmod`, for each.
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}


def read(
    spark: SparkSession, table: Table, wanted: Callable[[File], bool] = lambda _: True
) -> DataFrame:
    """Read the files of a table that are wanted; the columns are those of `columns.HISTORY`."""
    paths = [f"{table.url}/{file.path}" for file in table.files if wanted(file)]
    if not paths:
        # A table of Arrow's, unlike a list, takes no Python on the executors.
        return spark.createDataFrame(delta.SCHEMA.empty_table(), HISTORY)
    return (
        spark.read.schema(_STORED)
        .parquet(*paths)
        .withColumn("day", f.to_date("settled_at"))
        .withColumn("queue", f.regexp_extract("_metadata.file_path", "^.*/queue=([^/]+)/", 1))
        .select(*HISTORY.names)
    )


class Lake:
    """A lake as one version of its table has it."""

    def __init__(self, spark: SparkSession, table: Table) -> None:
        self.spark = spark
        self.table = table

    @classmethod
    def open(cls, spark: SparkSession, path: str) -> Self:
        """Open the lake at a path that Spark understands; raise LakeError when there is none."""
        return cls(spark, delta.open_(storage.qualified(spark, path)))

    @classmethod
    def find(cls, spark: SparkSession, path: str) -> Self | None:
        """Open the lake at a path, if there is one; raise LakeError for one of the older form."""
        table = delta.find(storage.qualified(spark, path))
        return cls(spark, table) if table else None

    @classmethod
    def create(cls, spark: SparkSession, path: str, database: str) -> Self:
        """Begin a lake for the history of that database."""
        place = storage.qualified(spark, path)
        storage.make(spark, f"{place}/{delta.NAME}")
        storage.check_shared(spark, place)
        return cls(spark, Table.create(f"{place}/{delta.NAME}", database))

    @property
    def url(self) -> str:
        """Where the lake is, of which the history is one table."""
        return self.table.lake

    @property
    def files(self) -> Sequence[File]:
        """The files, by day and queue."""
        return self.table.files

    def frame(self, wanted: Callable[[File], bool] = lambda _: True) -> DataFrame:
        """Return the rows of the files that are wanted, with the columns of `columns.HISTORY`."""
        return read(self.spark, self.table, wanted)

    def add(self, frame: DataFrame, window: Window) -> None:
        """Add what was settled in a window of transactions; raise LakeError unless it is all."""
        with self._written(frame) as files:
            rows, ids = sum(file.rows for file in files), sum(file.ids for file in files)
            if (rows, ids) != (window.rows, window.ids):
                raise LakeError(
                    f"the files written hold {rows} rows (sum of ids {ids}) where {window.rows}"
                    f" ({window.ids}) were counted: nothing has been changed; run it again"
                )
            self.table.commit("export", files, window=window)

    def replace(self, old: Sequence[File], frame: DataFrame, rows: int) -> None:
        """Put a frame of so many rows in the place of files; raise LakeError unless it is all."""
        with self._written(frame) as files:
            if (found := sum(file.rows for file in files)) != rows:
                raise LakeError(f"{found} rows were written of {rows}: nothing has been changed")
            self.table.commit("repair", files, old)

    def erase(self, condition: str | Column, *, reason: str) -> int:
        """Take the rows that fulfil an SQL condition out of the lake's files; return how many.

        The files that had them are written again and the old ones deleted when it returns; the
        table's log keeps their number and the reason. An export that has read the database before
        cannot commit after.
        """
        for left in reversed(range(_TRIES)):
            self.table.reopen()
            try:
                rows = self._without(condition, "erase", reason=reason)
                break
            except ConflictError:
                if not left:
                    raise
        # Not all that no commit has: others may be about to commit theirs.
        self.table.vacuum(0, full=False)
        return rows

    def rewind(self, window: Window) -> int:
        """Forget a window and all after it, so that they are exported again; return the rows."""
        return self._without(f.col("xid") >= window.first, "rewind", window=window)

    def total(self, window: Window) -> tuple[int, int, int]:
        """Return what the lake has now of a window: rows, and the sums of ids and of times.

        The times are those of settlement, in microseconds: after a failover ids are given again,
        as numbers of transactions are, and times are not.
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

    def compact(self, *, before: date, most_files: int = 8, spared: Collection[str] = ()) -> int:
        """Put small files of a queue and day together; return how many files there are fewer.

        Of days before that one all, of others where there are more than `most_files`; not those of
        a queue and day that have one whose path is `spared`.
        """
        days: dict[date, dict[str, list[File]]] = {}
        for file in self.files:
            if file.size < BIG // 2:
                days.setdefault(file.day, {}).setdefault(file.queue, []).append(file)
        fewer = 0
        for day, queues in days.items():
            most = 1 if day < before else most_files
            wanted = [
                queue
                for queue, files in queues.items()
                if len(files) > most and not any(file.path in spared for file in files)
            ]
            if wanted:
                fewer += self.table.compact(day, wanted, BIG)
        return fewer

    def expire(self, before: date) -> int:
        """Take the days before that one out of the lake; return their rows."""
        rows = sum(file.rows for file in self.files if file.day < before)
        if rows:
            self.table.expire(before)
        return rows

    def clear(self, hours: int = 24) -> None:
        """Remove the files of older versions, and what writers that died had left by then."""
        storage.remove_unfinished(self.spark, self.table.url, _PREFIX, hours)
        self.table.vacuum(hours, full=True)

    def _without(
        self, condition: str | Column, kind: str, *, reason: str = "", window: Window | None = None
    ) -> int:
        doomed = f.expr(condition) if isinstance(condition, str) else condition
        doomed = f.coalesce(doomed, f.lit(False))  # noqa: FBT003 - PySpark's own.
        # Not where the files are known to be of earlier transactions.
        found = self.frame(lambda file: window is None or file.last >= window.first).where(doomed)
        hit = {
            self._path(row["file"]): int(row["rows"])
            for row in found.groupBy(f.input_file_name().alias("file"))
            .agg(f.count("*").alias("rows"))
            .collect()
        }
        old = [file for file in self.files if file.path in hit]
        gone = sum(hit.values())
        left = sum(file.rows for file in old) - gone
        rest = self.frame(lambda file: file.path in hit).where(~doomed)
        with self._written(rest) as files:
            rows = sum(file.rows for file in files)
            if rows != left:
                raise LakeError(f"{rows} rows were written of {left}: nothing has been changed")
            self.table.commit(kind, files, old, window=window, rows=gone, reason=reason)
        return gone

    @contextmanager
    def _written(self, frame: DataFrame) -> Iterator[list[Written]]:
        """Write a frame; give its files, as they are read.

        They are removed when the block refuses them, and not after an error that leaves open
        whether they were committed: what no commit has goes a day later.
        """
        folder = f"{self.table.url}/{_PREFIX}{token_hex(8)}"
        try:
            (
                frame.sortWithinPartitions(*PARTITIONS, "settled_at")
                .write.partitionBy(*PARTITIONS)
                .options(**_WRITING)
                .parquet(folder)
            )
            settled_at, file = f.unix_micros("settled_at"), f.col("_metadata")
            found = (
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
                for path, size, moment, rows, ids, xids, times in found
            ]  # fmt: skip
        except LakeError:
            storage.remove(self.spark, folder)
            raise

    def _path(self, url: str) -> str:
        """Return the path in the table of a file as Spark names it."""
        _, _, path = self.table.url.partition("://")[2].partition("/")
        return unquote(url).partition(f"/{path}/")[2]


def _ids() -> Column:
    return f.sum(f.col("id").cast("decimal(38,0)")).alias("ids")
