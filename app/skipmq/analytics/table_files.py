"""The files of a lake's table: those it has, and new ones, as actions of Delta's commits."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TypeAlias

from deltalake.transaction import AddAction, RemoveAction

from skipmq.analytics.digest import MODULUS

# A queue's rows of a day.
QueueDay: TypeAlias = tuple[date, str]
_DATA_CHANGE = True


@dataclass(frozen=True, slots=True)
class File:
    """A file of the table: its path in the table, bytes, rows, and lowest and highest xid."""

    path: str
    day: date
    queue: str
    size: int
    rows: int
    first: int
    last: int

    @property
    def queue_day(self) -> QueueDay:
        """The day and queue of its rows."""
        return self.day, self.queue


@dataclass(frozen=True, slots=True)
class Written:
    """A new file as it was read back, with the digest of its rows; times are in microseconds."""

    path: str
    size: int
    written_at: int
    rows: int
    digest: int
    xids: tuple[int, int]
    settled_at: tuple[int, int]

    @property
    def queue_day(self) -> QueueDay:
        """The day and queue of its rows."""
        day, queue = self.path.split("/")[-3:-1]
        return date.fromisoformat(day.removeprefix("day=")), queue.removeprefix("queue=")

    def action(self) -> AddAction:
        """Return the action that adds the file, with statistics for data skipping."""
        day, queue = self.queue_day
        partition: dict[str, str | None] = {"day": str(day), "queue": queue}
        # Times in statistics are in milliseconds: round the maximum up.
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


def remove_action(file: File) -> RemoveAction:
    """Return the action that removes a file."""
    partition: dict[str, str | None] = {"day": str(file.day), "queue": file.queue}
    # With the deletion time 0, the next vacuum deletes the file.
    return RemoveAction(file.path, _DATA_CHANGE, 0, file.size, partition)


def digests_of(files: Iterable[Written]) -> dict[QueueDay, int]:
    """Return the digests of files by queue and day."""
    digests: dict[QueueDay, int] = {}
    for file in files:
        digests[file.queue_day] = (digests.get(file.queue_day, 0) + file.digest) % MODULUS
    return digests


def _time(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
