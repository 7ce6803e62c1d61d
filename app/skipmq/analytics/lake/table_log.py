"""The files of a Delta table as they are stored, its log, and the names of what is in that."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import pyarrow as pa
from deltalake.fs import DeltaStorageHandler
from pyarrow import fs, parquet

from skipmq.analytics.lake.table_files import STATISTICS, QueueDay

# An entry of the log, or a checkpoint of it, in one file or several.
_ENTRY = re.compile(r"/(\d{20})\.(checkpoint\..*)?(json|parquet)$")
# Files read in parallel: an object store takes some 50 ms for each.
_READERS = 16
_Read = TypeVar("_Read")
_Result = TypeVar("_Result")
# The names under which a table keeps what belongs to each partition, of which the first has those
# of a single database, which may become one.
# The application ID of the transaction whose version is the first xid that is not in the table, and
# the key of our data in commits.
WRITER = "skipmq"
_DATABASE = "skipmq.database"
# Without it delta-rs takes all columns to have statistics, and a filter on one that has none, as by
# DuckDB over `to_pyarrow_dataset`, finds no row.
_STATISTICS = "delta.dataSkippingStatsColumns"
_RETENTION = "delta.deletedFileRetentionDuration"
# The application ID of the transaction whose version is the number of the first day that is kept.
EXPIRED = "skipmq.expired"


def position(partition: int) -> str:
    """Return the application ID of the transaction whose version is a partition's position."""
    return f"{WRITER}/{partition}" if partition else WRITER


def timeline(partition: int) -> str:
    """Return the application ID of the transaction whose version is a partition's timeline."""
    return f"skipmq.timeline/{partition}"


def digest(queue_day: QueueDay) -> str:
    """Return the application ID of the transaction whose version is the digest of these rows."""
    day, queue, partition = queue_day
    return f"skipmq.digest/{day}/{queue}" + (f"/{partition}" if partition else "")


def properties(databases: Mapping[int, str]) -> dict[str, str]:
    """Return the table's properties: the identifiers of its databases, by partition, and others."""
    identifiers = {f"{_DATABASE}.{n}" if n else _DATABASE: each for n, each in databases.items()}
    return identifiers | {_STATISTICS: ",".join(STATISTICS), _RETENTION: "interval 1 days"}


def databases(properties: Mapping[str, str]) -> dict[int, str]:
    """Return the identifiers of databases, by partition, in a table's properties."""
    return {
        int(name.removeprefix(_DATABASE).removeprefix(".") or 0): identifier
        for name, identifier in properties.items()
        if name == _DATABASE or name.startswith(f"{_DATABASE}.")
    }


def files(url: str) -> fs.FileSystem:
    """Return the file system below a URL: delta-rs's, or the local one, which is much faster."""
    if url.startswith("file://"):
        return fs.SubTreeFileSystem(url.removeprefix("file://"), fs.LocalFileSystem())
    return fs.PyFileSystem(DeltaStorageHandler(url))


def mapped(
    file_system: fs.FileSystem, read: Callable[[_Read], _Result], items: Iterable[_Read]
) -> list[_Result]:
    """Return what a function reads of each item, in parallel except from local files.

    They take no waiting, in which another thread could read one.
    """
    if isinstance(file_system, fs.SubTreeFileSystem):
        return [read(each) for each in items]
    with ThreadPoolExecutor(_READERS) as threads:
        return list(threads.map(read, items))


def transactions(url: str, version: int) -> Iterator[tuple[str, int]]:
    """Yield the application IDs and versions of the transactions in a table's log, in order.

    delta-rs reads the log again for each one of them.
    """
    file_system = files(url)
    paths = [each.path for each in file_system.get_file_info(fs.FileSelector("_delta_log"))]
    found = sorted((int(n[1]), path) for path in paths if (n := _ENTRY.search(path)))
    found = [(n, path) for n, path in found if n <= version]
    last = max((n for n, path in found if ".checkpoint." in path), default=-1)

    def recorded(path: str) -> list[dict[str, Any]]:
        if path.endswith(".parquet"):
            rows = parquet.read_table(path, filesystem=file_system, columns=["txn"])
            return [each for each in rows["txn"].drop_null().to_pylist() if each]
        with file_system.open_input_stream(path) as stream:
            lines = [line for line in stream.read().splitlines() if line.startswith(b'{"txn":')]
        return [json.loads(line)["txn"] for line in lines]

    read = [path for n, path in found if n > last or (n == last and ".checkpoint." in path)]
    for each in chain.from_iterable(mapped(file_system, recorded, read)):
        yield each["appId"], each["version"]


def complete(url: str, actions: Sequence[dict[str, Any]]) -> None:
    """Add the statistics that actions lack, as delta-rs names them, from the files' footers.

    Other writers may leave them out; `delta.dataSkippingNumIndexedCols` hides those of all files.
    A file that cannot be read gets none.
    """
    lacking = [each for each in actions if None in (each.get("num_records"), each.get("min.xid"))]
    file_system = files(url)
    read = mapped(file_system, partial(_statistics, file_system), [e["path"] for e in lacking])
    for action, found in zip(lacking, read, strict=True):
        action.update({n: value for n, value in found.items() if action.get(n) is None})


def _statistics(file_system: fs.FileSystem, path: str) -> dict[str, Any]:
    try:
        footer = parquet.read_metadata(path, filesystem=file_system)
    except (pa.ArrowException, OSError, ValueError):
        return {}
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    found: dict[str, Any] = {"num_records": footer.num_rows}
    for place, name in enumerate(footer.schema.names):
        values = [group.column(place).statistics for group in groups]
        if name in STATISTICS and values and all(each and each.has_min_max for each in values):
            found[f"min.{name}"] = min(each.min for each in values)
            found[f"max.{name}"] = max(each.max for each in values)
    return found


def damaged(url: str) -> Iterator[str]:
    """Yield the paths of the entries of a table's log that are not JSON lines."""
    file_system = files(url)
    for entry in file_system.get_file_info(fs.FileSelector("_delta_log")):
        if entry.path.endswith(".json"):
            try:
                with file_system.open_input_stream(entry.path) as stream:
                    for line in stream.read().splitlines():
                        json.loads(line)
            except ValueError:
                yield f"{url}/{entry.path}"
