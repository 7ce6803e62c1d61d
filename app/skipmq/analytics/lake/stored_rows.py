"""The rows of a lake's files, read back and compared with what was committed."""

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

import duckdb
import pyarrow as pa
from pyarrow import fs, parquet

from skipmq.analytics import delta
from skipmq.analytics.delta import Table
from skipmq.analytics.lake import digest
from skipmq.analytics.lake.table_files import File, QueueDay

# Queues and days read in parallel, each with one thread of DuckDB's.
_THREADS = 4
# Columns that a file lacks, because it is older than they are, are null.
_TOTAL = (
    f"select count(*), {digest.DUCKDB} from"
    " (from nothing union all by name select *, $queue as queue from stored)"
)


def altered(table: Table, queue_days: Collection[QueueDay]) -> dict[QueueDay, str]:
    """Return the problems of those queues and days whose rows are not those that were committed.

    Reads all their rows, and so needs no statistics or checksums of the files.
    """
    files: dict[QueueDay, list[File]] = {queue_day: [] for queue_day in queue_days}
    for file in table.files:
        if file.queue_day in files:
            files[file.queue_day].append(file)
    file_system = delta.files(table.url)

    def problem(queue_day: QueueDay) -> str:
        total = 0
        for file in files[queue_day]:
            try:
                rows, part = _read(file, file_system)
            except (pa.ArrowException, duckdb.Error, OSError) as error:
                return f"{table.url}/{file.path} cannot be read: {_first_line(error)}"
            if rows != file.rows:
                return f"{table.url}/{file.path} has {rows} rows of {file.rows}"
            total += part
        if total % digest.MODULUS == table.digest(queue_day):
            return ""
        day, queue, _ = queue_day
        paths = ", ".join(file.path for file in files[queue_day])
        return f"{table.url}: a row of {queue} of {day} differs from what was written, in {paths}"

    with ThreadPoolExecutor(_THREADS) as threads:
        problems = zip(files, threads.map(problem, files), strict=True)
    return {queue_day: text for queue_day, text in problems if text}


def _read(file: File, file_system: fs.FileSystem) -> tuple[int, int]:
    """Return the number of a file's rows, and their digest."""
    with (
        parquet.ParquetFile(
            file.path, filesystem=file_system, page_checksum_verification=True
        ) as opened,
        duckdb.connect(config={"threads": 1}) as connection,
    ):
        connection.execute("set TimeZone = 'UTC'")
        connection.register("nothing", delta.SCHEMA.empty_table())
        batches = opened.iter_batches()
        stored = pa.RecordBatchReader.from_batches(opened.schema_arrow, batches)
        connection.register("stored", stored)
        row = connection.execute(_TOTAL, {"queue": file.queue}).fetchone()
        assert row is not None
        return row[0], row[1]


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
