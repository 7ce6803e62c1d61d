"""The files of a lake, read back and compared with what was written or committed.

That a store cannot be reached is no damage; one that fails while rows are read is taken for it.
"""

from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import Any

import duckdb
import pyarrow as pa
from pyarrow import fs, parquet

from skipmq.analytics import delta, errors
from skipmq.analytics.columns import DIGEST_MODULUS, DUCKDB_DIGEST
from skipmq.analytics.delta import Table
from skipmq.analytics.lake import table_log
from skipmq.analytics.lake.table_files import File, QueueDay, Written
from skipmq.database.partitions import QUEUE_BITS

# Files read in parallel, each by a thread of its own.
_THREADS = 4
# What is read of the end of a file first. Most footers are smaller.
_TAIL = 64 << 10
# The length of a footer and the magic number, after it.
_END = 8
# What the contents of a file raise: pyarrow also raises OSError, and ValueError for texts.
DAMAGED = (pa.ArrowException, duckdb.Error, OSError, ValueError)
# Columns that a file lacks, because it is older than they are, are null.
_TOTAL = (
    f"select count(*), {DUCKDB_DIGEST}, [min(xid), max(xid)], [min(queue_id), max(queue_id)],"
    " [min(epoch_us(sent_at)), max(epoch_us(sent_at))],"
    " [min(epoch_us(settled_at)), max(epoch_us(settled_at))] from"
    " (from nothing union all by name select *, $queue as queue from stored)"
)


def damage(table: Table, files: Sequence[File]) -> dict[QueueDay, list[str]]:
    """Return the problems of damaged files, by queue and day.

    Checks the sizes of files, and the row counts in their footers.
    """
    file_system = table_log.files(table.url)

    def problem(file: File) -> str:
        try:
            with file_system.open_input_file(file.path) as stream:
                if (size := stream.size()) != file.size:
                    return f"has {size} bytes of {file.size}"
                footer = _footer(stream, size)
        except FileNotFoundError:
            return "is missing"
        try:
            rows = parquet.read_metadata(pa.BufferReader(footer)).num_rows
        except DAMAGED as error:
            return f"has a damaged footer: {_first_line(error)}"
        return "" if rows == file.rows else f"has {rows} rows of {file.rows}"

    found: dict[QueueDay, list[str]] = {}
    for file, text in zip(files, table_log.mapped(file_system, problem, files), strict=True):
        if text:
            found.setdefault(file.queue_day, []).append(f"{table.url}/{file.path} {text}")
    return found


def _footer(stream: pa.NativeFile, size: int) -> pa.Buffer:
    """Read the end of a file of `size` bytes, with its footer."""
    tail = stream.read_at(min(_TAIL, size), max(0, size - _TAIL))
    length = int.from_bytes(tail[-_END:-4], "little") + _END
    if len(tail) < length <= size:
        tail = stream.read_at(length, size - length)
    return pa.py_buffer(tail)


def written(table: Table, folder: str) -> list[Written]:
    """Read the new files of a folder of a table; raise one of DAMAGED if one cannot be read."""
    file_system = table_log.files(table.url)
    found = file_system.get_file_info(fs.FileSelector(folder, recursive=True))
    files = [file for file in found if file.path.endswith(".parquet")]

    def read(file: fs.FileInfo) -> Written:
        queue = file.path.split("/")[-2].removeprefix("queue=")
        rows, total, xids, ids, sent, settled = _read(file.path, queue, file_system, connection)
        partition = max(ids) >> QUEUE_BITS if has_partitions else 0
        return Written(
            *(file.path, file.size, file.mtime_ns // 1000, rows, total),
            *(xids, ids, sent, settled, partition),
        )

    has_partitions = table.has_partitions
    with _duckdb() as connection, ThreadPoolExecutor(_THREADS) as threads:
        return list(threads.map(read, files))


def altered(
    table: Table, queue_days: Collection[QueueDay], known: dict[str, int] | None = None
) -> dict[QueueDay, str]:
    """Return the problems of those queues and days whose rows are not those that were committed.

    Reads all their rows, and so needs no statistics or checksums of the files. `known` has the
    digests of files that were read already, by path, and gets those that are read.
    """
    files: dict[QueueDay, list[File]] = {queue_day: [] for queue_day in queue_days}
    for file in table.files:
        if file.queue_day in files:
            files[file.queue_day].append(file)
    file_system = table_log.files(table.url)
    totals = {} if known is None else known

    def problem(queue_day: QueueDay) -> str:
        for file in files[queue_day]:
            if file.path in totals:
                continue
            try:
                rows, total, *_ = _read(file.path, file.queue, file_system, connection)
            except DAMAGED as error:
                return f"{table.url}/{file.path} cannot be read: {_first_line(error)}"
            if rows != file.rows:
                return f"{table.url}/{file.path} has {rows} rows of {file.rows}"
            totals[file.path] = total
        total = sum(totals[file.path] for file in files[queue_day])
        if total % DIGEST_MODULUS == table.digest(queue_day):
            return ""
        day, queue, _ = queue_day
        paths = ", ".join(file.path for file in files[queue_day])
        return f"{table.url}: a row of {queue} of {day} differs from what was written, in {paths}"

    # Mostly there is nothing to read, as each file was compared when it was written.
    is_known = all(file.path in totals for found in files.values() for file in found)
    with (
        nullcontext() if is_known else _duckdb() as connection,
        ThreadPoolExecutor(_THREADS) as threads,
    ):
        problems = zip(files, threads.map(problem, files), strict=True)
    return {queue_day: text for queue_day, text in problems if text}


@contextmanager
def _duckdb() -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection of which each file takes a cursor: another database takes 20 ms."""
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("set global TimeZone = 'UTC'")
        yield connection


def _read(
    path: str, queue: str, file_system: fs.FileSystem, connection: duckdb.DuckDBPyConnection
) -> tuple[Any, ...]:
    """Return a file's rows and their digest, and its lowest and highest xid, queue and times."""
    with (
        parquet.ParquetFile(
            path, filesystem=file_system, page_checksum_verification=True
        ) as opened,
        connection.cursor() as cursor,
    ):
        cursor.register("nothing", delta.SCHEMA.empty_table())
        stored = pa.RecordBatchReader.from_batches(opened.schema_arrow, opened.iter_batches())
        cursor.register("stored", stored)
        row: tuple[Any, ...] | None = cursor.execute(_TOTAL, {"queue": queue}).fetchone()
        assert row is not None
        return row


def _first_line(error: Exception) -> str:
    # Where DuckDB reads by pyarrow, a traceback follows.
    return errors.first_line(error).partition(". Detail: ")[0]
