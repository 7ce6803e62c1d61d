"""The files of a Delta table as they are stored, and its log."""

import json
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa
from deltalake.fs import DeltaStorageHandler
from pyarrow import fs, parquet

# An entry of the log, or a checkpoint of it, in one file or several.
_ENTRY = re.compile(r"/(\d{20})\.(checkpoint\..*)?(json|parquet)$")
# Entries of the log, and footers of files, read in parallel.
_READERS = 16
# The columns whose least and greatest values are read from the footers of files.
_BOUNDED = ("xid", "queue_id", "sent_at", "settled_at")


def files(url: str) -> fs.FileSystem:
    """Return the file system below a URL: delta-rs's, or the local one, which is much faster."""
    if url.startswith("file://"):
        return fs.SubTreeFileSystem(url.removeprefix("file://"), fs.LocalFileSystem())
    return fs.PyFileSystem(DeltaStorageHandler(url))


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
    with ThreadPoolExecutor(_READERS) as threads:
        for each in chain.from_iterable(threads.map(recorded, read)):
            yield each["appId"], each["version"]


def complete(url: str, actions: Sequence[dict[str, Any]]) -> None:
    """Add the statistics that actions lack, as delta-rs names them, from the files' footers.

    Other writers may leave them out; `delta.dataSkippingNumIndexedCols` hides those of all files.
    A file that cannot be read gets none.
    """
    lacking = [each for each in actions if None in (each.get("num_records"), each.get("min.xid"))]
    with ThreadPoolExecutor(_READERS) as threads:
        read = threads.map(partial(_statistics, files(url)), [each["path"] for each in lacking])
        for action, found in zip(lacking, read, strict=True):
            action.update({n: value for n, value in found.items() if action.get(n) is None})


def _statistics(file_system: fs.FileSystem, path: str) -> dict[str, Any]:
    """Return the statistics in the footer of a file."""
    try:
        footer = parquet.read_metadata(path, filesystem=file_system)
    except (pa.ArrowException, OSError, ValueError):
        return {}
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    found: dict[str, Any] = {"num_records": footer.num_rows}
    for place, name in enumerate(footer.schema.names):
        values = [group.column(place).statistics for group in groups]
        if name in _BOUNDED and values and all(each and each.has_min_max for each in values):
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
