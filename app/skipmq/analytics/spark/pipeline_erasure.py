"""Erasure of messages in the tables of a pipeline.

Only bronze and silver have messages; the next run computes the others again. Both are written by
Spark's file sink, which logs the files of each finished batch, with their sizes, in a folder
`_spark_metadata`: a line of JSON for each file after one with the version. A file with erased rows
is replaced by one of the same name, which readers of the stream then take for the one that they
have read; a size that differs from the log is that of a replacement that was interrupted.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession

from skipmq.analytics.columns import HISTORY
from skipmq.analytics.spark.pipeline_run import exclusive, table

# What identifies a message in a queue.
_KEY = ["id", "queue_id"]
# Bronze comes last: after an interruption it still names the rows of silver.
_TABLES = ("silver", "bronze")


class Tables:
    """The tables of the pipeline in a folder, which a session of Spark reads.

    Methods raise AnalyticsError if the pipeline is running.
    """

    def __init__(self, spark: SparkSession, output: Path) -> None:
        self._spark = spark
        self._output = output

    def count(self, condition: str) -> list[tuple[str, str, int]]:
        """Return the queue, the day and the number of the rows that match an SQL condition."""
        with exclusive(self._output):
            rows = self._matching(condition).groupBy("queue", "day").count()
            return [
                (row["queue"], str(row["day"]), row["count"])
                for row in rows.orderBy("day", "queue").collect()
            ]

    def erase(self, condition: str) -> int:
        """Erase the rows that match an SQL condition; return their number."""
        with exclusive(self._output):
            erased = self._matching(condition).select(*_KEY).toArrow()
            for name in _TABLES:
                folder = table(self._output, name)
                files = _files(folder)
                for file in folder.glob("*.parquet"):
                    if file in files:
                        _replace(file, erased)
                    else:  # Of a batch that was killed.
                        file.unlink()
                _log_sizes(folder)
        return int(erased.num_rows)

    def _matching(self, condition: str) -> DataFrame:
        for name in _TABLES:
            _log_sizes(table(self._output, name))
        bronze = table(self._output, "bronze")
        # Without a log no batch has been finished.
        rows = self._spark.read.schema(HISTORY)
        found = (
            rows.parquet(str(bronze))
            if any(_logs(bronze))
            else self._spark.createDataFrame([], HISTORY)
        )
        return found.where(condition)


def _replace(file: Path, erased: pa.Table) -> None:
    """Replace a file by one without the erased rows, if it has any."""
    keys = parquet.read_table(file, columns=_KEY, partitioning=None)
    if not keys.join(erased, _KEY, join_type="left semi").num_rows:
        return
    rows = parquet.read_table(file, partitioning=None)
    kept = rows.join(erased, _KEY, join_type="left anti")
    temporary = file.with_name(f".{file.name}.new")
    parquet.write_table(kept, temporary, compression="zstd")
    _exchange(temporary, file)


def _log_sizes(folder: Path) -> None:
    """Correct the sizes in the log of a table."""
    for log in _logs(folder):
        version, *entries = log.read_text().splitlines()
        files = [json.loads(entry) for entry in entries]
        corrected = [{**file, "size": _path(file).stat().st_size} for file in files]
        if corrected != files:
            temporary = log.with_name(f".{log.name}.new")
            temporary.write_text("\n".join([version, *map(json.dumps, corrected)]))
            _exchange(temporary, log)


def _files(folder: Path) -> set[Path]:
    """Return the files of a table's finished batches."""
    return {
        _path(json.loads(entry))
        for log in _logs(folder)
        for entry in log.read_text().splitlines()[1:]
    }


def _logs(folder: Path) -> Iterator[Path]:
    return (log for log in (folder / "_spark_metadata").glob("*") if log.name[0].isdigit())


def _path(entry: dict[str, Any]) -> Path:
    return Path(unquote(urlsplit(entry["path"]).path))


def _exchange(temporary: Path, file: Path) -> None:
    # Hadoop would compare the new file with the checksum of the old one.
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    temporary.replace(file)
