"""A lake's Delta table: its files, its log and commits to it, by delta-rs.

A commit is made to the version that was opened or fails, so of two concurrent writers one succeeds.
The commit also records the transaction up to which the table has the history.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from itertools import starmap
from pathlib import Path
from secrets import token_hex
from types import MappingProxyType
from typing import Any, Self

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, WriterProperties
from deltalake.exceptions import CommitFailedError, DeltaError
from pyspark.sql.pandas.types import to_arrow_schema

from skipmq.analytics.columns import DIGEST_MODULUS, HISTORY
from skipmq.analytics.errors import ConflictError, LakeError, first_line
from skipmq.analytics.lake import table_log
from skipmq.analytics.lake.table_files import File, QueueDay, Written, digests_of, remove_action
from skipmq.analytics.lake.windows import MAXIMUM_XID, Window
from skipmq.database.partitions import QUEUE_BITS

# The table of a lake.
NAME = "history"
PARTITIONS = ["day", "queue"]
SCHEMA = to_arrow_schema(HISTORY, timezone="UTC")
# Commits read first when searching for recent windows.
_COMMITS = 64


class Table:
    """A version of the table at a URL; a commit advances it to the next version."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.reopen()

    @classmethod
    def create(cls, url: str, databases: Mapping[int, str]) -> Self:
        """Create a table for the history of databases, by partition, unless it exists."""
        DeltaTable.create(
            url,
            SCHEMA,
            mode="ignore",
            partition_by=PARTITIONS,
            configuration=table_log.properties(databases),
            raise_if_key_not_exists=False,
        )
        return cls(url)

    @property
    def databases(self) -> Mapping[int, str]:
        """The identifiers of the databases whose history the table has, by partition."""
        return table_log.databases(self._opened.metadata().configuration)

    @property
    def has_partitions(self) -> bool:
        """Whether the table has the history of partitions; otherwise all rows are of one database.

        That one is number 0, whatever its own number is.
        """
        return any(self.databases)

    @property
    def identifier(self) -> str:
        """The identifier that the table was created with; its copies have it too."""
        return str(self._opened.metadata().id)

    @property
    def expired(self) -> date:
        """The day before which days were removed from the table."""
        return date.fromordinal(self._opened.transaction_version(table_log.EXPIRED) or 1)

    @property
    def version(self) -> int:
        """The number of the opened version."""
        return int(self._opened.version())

    @property
    def is_newest(self) -> bool:
        """Whether no commit was made since the table was opened."""
        return bool(DeltaTable(self.url).version() == self.version)

    def position(self, partition: int = 0) -> int:
        """Return the first transaction of a partition that is not in the table."""
        return self._opened.transaction_version(table_log.position(partition)) or 0

    def timeline(self, partition: int) -> int:
        """Return the timeline of a partition's last window, 0 if it is unknown."""
        return self._opened.transaction_version(table_log.timeline(partition)) or 0

    def digest(self, queue_day: QueueDay) -> int:
        """Return the digest of the rows that commits wrote for a queue and day."""
        return self._transactions.get(table_log.digest(queue_day), 0)

    @cached_property
    def _transactions(self) -> Mapping[str, int]:
        return dict(table_log.transactions(self.url, self.version))

    def changed(self, digests: Mapping[QueueDay, int]) -> dict[QueueDay, int]:
        """Return the digests of queues and days after these have been added."""
        return {
            queue_day: (self.digest(queue_day) + digest) % DIGEST_MODULUS
            for queue_day, digest in digests.items()
        }

    @cached_property
    def files(self) -> Sequence[File]:
        """The files in the order of days and queues."""
        actions = pa.table(self._opened.get_add_actions(flatten=True)).to_pylist()
        table_log.complete(self.url, actions)
        has_partitions = self.has_partitions
        files = [
            File(
                *(each["path"], each["partition.day"], each["partition.queue"], each["size_bytes"]),
                each["num_records"] or 0,
                # Without statistics, it may have any transaction.
                *(each.get("min.xid") or 0, each.get("max.xid") or MAXIMUM_XID),
                # Files without the number are older than partitions.
                (each.get("min.queue_id") or 0) >> QUEUE_BITS if has_partitions else 0,
                *(each.get("min.sent_at"), each.get("min.settled_at")),
            )
            for each in actions
        ]
        return sorted(files, key=lambda file: (file.day, file.queue, file.path))

    @property
    def first_settled(self) -> datetime | None:
        """When the first message in the table was settled, None without statistics of it."""
        return min((file.settled for file in self.files if file.settled), default=None)

    @property
    def lake(self) -> str:
        """The URL of the lake, which contains the table."""
        return self.url.removesuffix(f"/{NAME}")

    def within(
        self,
        since: datetime | None,
        queues: Sequence[str],
        until: datetime | None = None,
        as_of: datetime | None = None,
    ) -> Sequence[File]:
        """Return the files of the days of a period and of these queues (none: all queues).

        With `as_of`, those are left out all whose rows were sent and settled after it.
        """
        first, last = (at and at.astimezone(UTC).date() for at in (since, until))
        return [
            file
            for file in self.files
            if (first is None or file.day >= first)
            and (last is None or file.day <= last)
            and (as_of is None or (file.begin or as_of) <= as_of)
            and (not queues or file.queue in queues)
        ]

    def windows(self, within: timedelta, partition: int | None = None) -> list[Window]:
        """Return the windows exported within this time before the last one, in order.

        Those of one partition, or of all.
        """
        limit = _COMMITS
        while True:
            commits = self._opened.history(limit)
            windows = _windows(
                json.loads(c[table_log.WRITER]) for c in reversed(commits) if table_log.WRITER in c
            )
            windows = [each for each in windows if partition in {None, each.partition}]
            since = windows[-1].at - within if windows else None
            if len(commits) < limit or (since and windows[0].at < since):
                return [window for window in windows if since and window.at >= since]
            limit *= 4

    def commit(
        self,
        kind: str,
        add: Sequence[Written] = (),
        remove: Sequence[File] = (),
        *,
        window: Window | None = None,
        digests: Mapping[QueueDay, int] | None = None,
        **details: Any,
    ) -> None:
        """Add and remove files; set the position to the window's end, for a rewind to its first.

        `digests` are the new digests of queues and days, by default those of the files added to
        what there was. The kind `compact` changes no rows. Raises ConflictError, and changes
        nothing, if another writer has committed.
        """
        name = token_hex(8)
        info = {"kind": kind, "name": name, "window": window and asdict(window), **details}
        if digests is None:
            digests = self.changed(digests_of(add))
        versions = {table_log.digest(queue_day): digest for queue_day, digest in digests.items()}
        if window is not None:
            is_back = kind == "rewind"
            versions[table_log.position(window.partition)] = (
                window.first if is_back else window.until
            )
            versions[table_log.timeline(window.partition)] = 0 if is_back else window.timeline
        has_changes = kind != "compact"
        self.sync()
        try:
            self._opened.create_write_transaction(
                [
                    *(file.action(is_new=has_changes) for file in add),
                    *(remove_action(file, is_gone=has_changes) for file in remove),
                ],
                "append",
                SCHEMA,
                PARTITIONS,
                commit_properties=_properties(info, versions),
            )
        except DeltaError as error:
            # The commit may have succeeded although its response was lost.
            commits = DeltaTable(self.url).history(_COMMITS)
            if not any(name in commit.get(table_log.WRITER, "") for commit in commits):
                raise ConflictError from error
        self.reopen()

    def compact(self, day: date, queues: Sequence[str], size: int) -> int:
        """Compact the files of these queues on a day; return by how many files there are fewer."""
        with _conflicts():
            done = self._opened.optimize.compact(
                [("day", "=", str(day)), ("queue", "in", list(queues))],
                target_size=size,
                writer_properties=WriterProperties(compression="ZSTD"),
                commit_properties=_properties({"kind": "compact"}),
            )
        self.reopen()
        return int(done["numFilesRemoved"] - done["numFilesAdded"])

    def expire(self, before: date) -> None:
        """Remove the days before this one."""
        properties = _properties({"kind": "expire"}, {table_log.EXPIRED: before.toordinal()})
        with _conflicts():
            self._opened.delete(f"day < '{before}'", commit_properties=properties)
        self.reopen()

    def vacuum(self, hours: int, *, full: bool) -> None:
        """Delete files removed at least `hours` ago; with `full`, also uncommitted files."""
        options: dict[str, Any] = {"enforce_retention_duration": False, "full": full}
        # It would commit even if there is nothing to delete.
        if self._opened.vacuum(hours, dry_run=True, **options):
            self._opened.vacuum(hours, dry_run=False, **options)
            self.reopen()

    def reopen(self) -> None:
        """Open the newest version; raise LakeError if the log is damaged."""
        # What is kept of the version that was opened before.
        for name in ("files", "_transactions"):
            self.__dict__.pop(name, None)
        try:
            self._opened = DeltaTable(self.url)
        except DeltaError as error:
            entry = next(table_log.damaged(self.url), "")
            reason = f"{entry} is damaged" if entry else first_line(error).rstrip(".")
            raise LakeError(
                f"the log of the lake {self.lake} cannot be read: {reason}. Restore it from a"
                " backup, or export to another lake"
            ) from error

    def add_databases(self, databases: Mapping[int, str]) -> None:
        """Let the table have the history of partitions that it did not have.

        Raises LakeError if it has that of others, ConflictError.
        """
        present = self.databases
        for partition, identifier in databases.items():
            if present.get(partition, identifier) != identifier:
                raise LakeError(
                    f"the lake {self.lake} has the history of the database {present[partition]} and"
                    f" not of {identifier}, which numbers transactions differently: use another"
                    " lake"
                )
        self._set_properties(table_log.properties(databases))

    def _set_properties(self, wanted: Mapping[str, str]) -> None:
        if added := dict(wanted.items() - self._opened.metadata().configuration.items()):
            with _conflicts():
                self._opened.alter.set_table_properties(
                    added,
                    raise_if_not_exists=False,
                    commit_properties=_properties({"kind": "properties"}),
                )
            self.reopen()

    def partition_of(self, identifier: str) -> int:
        """Return the partition that a database is; raise LakeError if the table has others."""
        for partition, present in self.databases.items():
            if present == identifier:
                return partition
        raise LakeError(
            f"the lake {self.lake} has the history of {' and '.join(self.databases.values())} and"
            f" not of the database {identifier}, which numbers transactions differently: use"
            " another lake"
        )

    def add_columns(self) -> None:
        """Add the columns and properties that the table lacks, because it is older than they are.

        Raises LakeError if a column has another type, ConflictError.
        """
        present = {column.name: column.type for column in self._opened.schema().fields}
        missing = []
        for column in Schema.from_arrow(SCHEMA).fields:
            if column.name not in present:
                missing.append(column)
            elif present[column.name] != column.type:
                raise LakeError(
                    f"the lake {self.lake} has the column {column.name} of the type"
                    f" {present[column.name]} instead of {column.type}: use another lake"
                )
        if missing:
            with _conflicts():
                properties = _properties({"kind": "columns"})
                self._opened.alter.add_columns(missing, commit_properties=properties)
            self.reopen()
        self._set_properties(table_log.properties({}))

    def sync(self) -> None:
        """Flush written files to disk if the table is in a local folder."""
        if self.url.startswith("file:"):
            os.sync()


def url_of(path: str) -> str:
    """Return the URL of a local path; a path with a scheme is returned unchanged."""
    return path if "://" in path else f"file://{Path(path).absolute()}"


def open_(lake: str) -> Table:
    """Open the table of the lake at a URL; raise LakeError if there is no lake."""
    if (table := find(lake)) is None:
        path = lake.removeprefix("file://")
        raise LakeError(
            f"no lake at {path}: create it with `skipmq analytics export --lake {path}`"
        )
    return table


def find(lake: str) -> Table | None:
    """Open the table of the lake at a URL, or return None if there is no lake."""
    if DeltaTable.is_deltatable(f"{lake}/{NAME}"):
        return Table(f"{lake}/{NAME}")
    return None


@contextmanager
def _conflicts() -> Iterator[None]:
    try:
        yield
    except CommitFailedError as error:
        raise ConflictError from error


def _properties(
    info: Mapping[str, Any], versions: Mapping[str, int] = MappingProxyType({})
) -> CommitProperties:
    """Return the properties of a commit; it is not retried after a conflict.

    `versions` are those of Delta's transactions, by application ID.
    """
    text = json.dumps(info, default=lambda moment: moment.isoformat())
    return CommitProperties(
        {table_log.WRITER: text}, 0, list(starmap(Transaction, versions.items()))
    )


def _windows(commits: Iterable[Mapping[str, Any]]) -> list[Window]:
    """Return the windows that are in the table after these commits."""
    windows: list[Window] = []
    for commit in commits:
        if not commit.get("window"):
            continue
        content = commit["window"]
        window = Window(**content | {"at": datetime.fromisoformat(content["at"])})
        if commit["kind"] == "rewind":
            windows = [
                each
                for each in windows
                if each.partition != window.partition or each.until <= window.first
            ]
        else:
            windows.append(window)
    return windows
