"""The files of a lake's table: those it has, and new ones, as actions of Delta's commits."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import NamedTuple

from deltalake.transaction import AddAction, RemoveAction

from skipmq.analytics.columns import DIGEST_MODULUS

# The columns of which files have statistics.
STATISTICS = ("xid", "queue_id", "sent_at", "settled_at")


class QueueDay(NamedTuple):
    """A queue's rows of a day in a partition, which a queue of the name may have left."""

    day: date
    queue: str
    partition: int = 0


@dataclass(frozen=True, slots=True)
class File:
    """A file of the table: its path in the table, bytes, rows, and lowest and highest xid.

    `sent` and `settled` are its earliest times, None if they are not known. All its rows are of one
    partition.
    """

    path: str
    day: date
    queue: str
    size: int
    rows: int
    first: int
    last: int
    partition: int = 0
    sent: datetime | None = None
    settled: datetime | None = None

    @property
    def begin(self) -> datetime | None:
        """The earliest time of its rows, None if it is not known."""
        return min(self.sent, self.settled) if self.sent and self.settled else None

    @property
    def queue_day(self) -> QueueDay:
        """The day, queue and partition of its rows."""
        return QueueDay(self.day, self.queue, self.partition)


@dataclass(frozen=True, slots=True)
class Written:
    """A new file as it was read back, with the digest of its rows; times are in microseconds."""

    path: str
    size: int
    written_at: int
    rows: int
    digest: int
    xids: tuple[int, int]
    queue_ids: tuple[int, int]
    sent_at: tuple[int, int]
    settled_at: tuple[int, int]
    partition: int = 0

    @property
    def queue_day(self) -> QueueDay:
        """The day, queue and partition of its rows."""
        day, queue = (part.partition("=")[2] for part in self.path.split("/")[-3:-1])
        return QueueDay(date.fromisoformat(day), queue, self.partition)

    def action(self, *, is_new: bool = True) -> AddAction:
        """Return the action that adds the file, with statistics for data skipping.

        Its rows are new to the table unless other files had them.
        """
        day, queue, _ = self.queue_day
        values: dict[str, str | None] = {"day": str(day), "queue": queue}
        # Times in statistics are in milliseconds: round the maximum up.
        times = [
            (_time(first // 1000), _time(-(-last // 1000)))
            for first, last in (self.sent_at, self.settled_at)
        ]
        bounds = dict(zip(STATISTICS, (self.xids, self.queue_ids, *times), strict=True))
        statistics = {
            "numRecords": self.rows,
            "minValues": {name: first for name, (first, _) in bounds.items()},
            "maxValues": {name: last for name, (_, last) in bounds.items()},
            "nullCount": dict.fromkeys(bounds, 0),
        }
        return AddAction(
            self.path, self.size, values, self.written_at // 1000, is_new, json.dumps(statistics)
        )


def remove_action(file: File, *, is_gone: bool = True) -> RemoveAction:
    """Return the action that removes a file, whose rows are gone unless other files have them."""
    values: dict[str, str | None] = {"day": str(file.day), "queue": file.queue}
    # With the deletion time 0, the next vacuum deletes the file.
    return RemoveAction(file.path, is_gone, 0, file.size, values)


def digests_of(files: Iterable[Written]) -> dict[QueueDay, int]:
    """Return the digests of files by queue and day."""
    digests: dict[QueueDay, int] = {}
    for file in files:
        digests[file.queue_day] = (digests.get(file.queue_day, 0) + file.digest) % DIGEST_MODULUS
    return digests


def _time(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
