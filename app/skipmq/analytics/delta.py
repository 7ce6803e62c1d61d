"""The table of a lake as delta-rs has it: its files, what commits say, and a commit.

A commit is made on the version that was opened, or refused: of two writers one has written. In the
same commit stands up to which transaction the history is in the table.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from secrets import token_hex
from typing import Any, Self

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, WriterProperties
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction, RemoveAction
from pyarrow import fs
from pyspark.sql.pandas.types import to_arrow_schema

from skipmq.analytics.columns import HISTORY
from skipmq.analytics.errors import ConflictError, LakeError
from skipmq.analytics.windows import Window

# The table of a lake.
NAME = "history"
PARTITIONS = ["day", "queue"]
SCHEMA = to_arrow_schema(HISTORY, timezone="UTC")
# The writer's name in Delta's transactions, whose version is the first xid that the table lacks,
# and in what a commit says of itself.
_WRITER = "skipmq"
_DATABASE = "skipmq.database"
_DATA_CHANGE = True
# Commits looked at first for the windows of the last hour.
_COMMITS = 64


@dataclass(frozen=True, slots=True)
class File:
    """A file of the table: path in it, bytes, rows, and the lowest and the highest xid."""

    path: str
    day: date
    queue: str
    size: int
    rows: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Written:
    """A file that was written, as it is read back: its `ids` sum up; times in microseconds."""

    path: str
    size: int
    written_at: int
    rows: int
    ids: int
    xids: tuple[int, int]
    settled_at: tuple[int, int]

    def action(self) -> AddAction:
        """Return what adds it to the table, with what lets readers pass it over."""
        day, queue = self.path.split("/")[-3:-1]
        partition = {"day": day.removeprefix("day="), "queue": queue.removeprefix("queue=")}
        # Times of statistics are in milliseconds; the highest is not below what there is.
        first, last = self.settled_at[0] // 1000, -(-self.settled_at[1] // 1000)
        statistics = {
            "numRecords": self.rows,
            "minValues": {"xid": self.xids[0], "settled_at": _time(first)},
            "maxValues": {"xid": self.xids[1], "settled_at": _time(last)},
            "nullCount": {"xid": 0, "settled_at": 0},
        }
        return AddAction(
            self.path, self.size, partition, self.written_at // 1000, _DATA_CHANGE,
            json.dumps(statistics),
        )  # fmt: skip


class Table:
    """One version of the table at a URL; a change goes on to the next."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._opened = DeltaTable(url)

    @classmethod
    def create(cls, url: str, database: str) -> Self:
        """Begin a table for the history of that database, unless there is one."""
        DeltaTable.create(
            url,
            SCHEMA,
            mode="ignore",
            partition_by=PARTITIONS,
            configuration={
                _DATABASE: database,
                "delta.deletedFileRetentionDuration": "interval 1 days",
            },
            raise_if_key_not_exists=False,
        )
        return cls(url)

    @property
    def database(self) -> str:
        """The identifier of the database whose history this is."""
        return str(self._opened.metadata().configuration[_DATABASE])

    @property
    def position(self) -> int:
        """The first transaction that is not in the table."""
        return self._opened.transaction_version(_WRITER) or 0

    @property
    def files(self) -> Sequence[File]:
        """The files, by day and queue."""
        found = [
            File(
                *(row["path"], row["partition.day"], row["partition.queue"], row["size_bytes"]),
                *(row["num_records"], row["min.xid"], row["max.xid"]),
            )
            for row in pa.table(self._opened.get_add_actions(flatten=True)).to_pylist()
        ]
        return sorted(found, key=lambda file: (file.day, file.queue, file.path))

    @property
    def lake(self) -> str:
        """The URL of the lake, of which the history is one table."""
        return self.url.removesuffix(f"/{NAME}")

    def within(
        self, since: datetime | None, queues: Sequence[str], until: datetime | None = None
    ) -> Sequence[File]:
        """Return the files that have the days of a time (UTC) and these queues (none: all)."""
        first = since and since.astimezone(UTC).date()
        last = until and until.astimezone(UTC).date()
        return [
            file
            for file in self.files
            if (first is None or file.day >= first)
            and (last is None or file.day <= last)
            and (not queues or file.queue in queues)
        ]

    def windows(self, within: timedelta) -> list[Window]:
        """Return the windows that were exported so long before the last one, in order."""
        known = _COMMITS
        while True:
            commits = self._opened.history(known)
            found = _windows(json.loads(c[_WRITER]) for c in reversed(commits) if _WRITER in c)
            since = found[-1].at - within if found else None
            if len(commits) < known or (since and found[0].at < since):
                return [window for window in found if since and window.at >= since]
            known *= 4

    def commit(
        self,
        kind: str,
        add: Sequence[Written] = (),
        remove: Sequence[File] = (),
        *,
        window: Window | None = None,
        **facts: Any,
    ) -> None:
        """Add files and take others out; set the position to a window's end, of a rewind its first.

        Raises ConflictError, with nothing changed, when another commit came first.
        """
        name = token_hex(8)
        said = {"kind": kind, "name": name, "window": window and asdict(window), **facts}
        position = None
        if window is not None:
            position = window.first if kind == "rewind" else window.until
        self.sync()
        try:
            self._opened.create_write_transaction(
                [*(file.action() for file in add), *map(_removed, remove)],
                "append",
                SCHEMA,
                PARTITIONS,
                commit_properties=_properties(said, position),
            )
        except DeltaError as error:
            # The answer to a commit that was made may have been lost.
            made = DeltaTable(self.url).history(_COMMITS)
            if not any(name in commit.get(_WRITER, "") for commit in made):
                raise ConflictError from error
        self.reopen()

    def compact(self, day: date, queues: Sequence[str], size: int) -> int:
        """Put files of these queues of a day together; return how many there are fewer."""
        with _refused():
            done = self._opened.optimize.compact(
                [("day", "=", str(day)), ("queue", "in", list(queues))],
                target_size=size,
                writer_properties=WriterProperties(compression="ZSTD"),
                commit_properties=_properties({"kind": "compact"}),
            )
        self.reopen()
        return int(done["numFilesRemoved"] - done["numFilesAdded"])

    def expire(self, before: date) -> None:
        """Take the days before that one out."""
        said = _properties({"kind": "expire"})
        with _refused():
            self._opened.delete(f"day < '{before}'", commit_properties=said)
        self.reopen()

    def vacuum(self, hours: int, *, full: bool) -> None:
        """Delete files that were taken out so long ago, and in full what never was in a version."""
        given: dict[str, Any] = {"enforce_retention_duration": False, "full": full}
        # It commits, also when there is nothing to delete.
        if self._opened.vacuum(hours, dry_run=True, **given):
            self._opened.vacuum(hours, dry_run=False, **given)
            self.reopen()

    def reopen(self) -> None:
        """Go on to the newest version."""
        self._opened = DeltaTable(self.url)

    def sync(self) -> None:
        """Have all that was written on disk, where that is this machine's."""
        if self.url.startswith("file:"):
            os.sync()


def url_of(path: str) -> str:
    """Return the URL of a path of this machine; one that has a scheme is one."""
    return path if "://" in path else f"file://{Path(path).absolute()}"


def open_(lake: str) -> Table:
    """Open the table of the lake at a URL; raise LakeError when there is no lake."""
    found = find(lake)
    if found is None:
        place = lake.removeprefix("file://")
        raise LakeError(f"there is no lake at {place}: `skipmq analytics export --lake {place}`")
    return found


def find(lake: str) -> Table | None:
    """Open the table of the lake at a URL, if there is one."""
    if DeltaTable.is_deltatable(f"{lake}/{NAME}"):
        return Table(f"{lake}/{NAME}")
    return None


def files(url: str) -> fs.FileSystem:
    """Return the files below a URL as delta-rs finds them, by their paths in it."""
    return fs.PyFileSystem(DeltaStorageHandler(url))


@contextmanager
def _refused() -> Iterator[None]:
    """Turn the refusal of a commit into ConflictError."""
    try:
        yield
    except CommitFailedError as error:
        raise ConflictError from error


def _properties(said: Mapping[str, Any], position: int | None = None) -> CommitProperties:
    """Return what a commit says of itself; it is refused where another came before it."""
    text = json.dumps(said, default=lambda moment: moment.isoformat())
    transactions = None if position is None else [Transaction(_WRITER, position)]
    return CommitProperties({_WRITER: text}, 0, transactions)


def _windows(said: Iterable[Mapping[str, Any]]) -> list[Window]:
    """Return the windows that commits, in order, have come to."""
    found: list[Window] = []
    for commit in said:
        if not commit.get("window"):
            continue
        content = commit["window"]
        window = Window(**(content | {"at": datetime.fromisoformat(content["at"])}))
        if commit["kind"] == "rewind":
            found = [each for each in found if each.until <= window.first]
        else:
            found.append(window)
    return found


def _removed(file: File) -> RemoveAction:
    partition: dict[str, str | None] = {"day": str(file.day), "queue": file.queue}
    # As if long ago: whoever clears up next deletes it.
    return RemoveAction(file.path, _DATA_CHANGE, 0, file.size, partition)


def _time(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
