"""Erasure of messages in queues, the history and the lake.

The condition is SQL over the columns of the history, for both PostgreSQL and Spark; live messages
have no `settled_at`, `outcome`, `node` and `xid`, and staged ones, which Spark's sink will send, no
`id` and `sender` either. These are erased first, then live ones: those that are sent or settled in
the meantime are then found in the next place.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

from skipmq.analytics.lake.tables import Lake
from skipmq.analytics.postgres import erasure, history
from skipmq.database.session import Session

# Messages erased in one transaction.
CHUNK = 500


@dataclass(frozen=True, slots=True)
class MessageCount:
    """Matching messages of a queue and day of settlement, in a place.

    That is `staged`, `live`, `history` or `lake`.
    """

    place: str
    queue: str
    day: str | None
    messages: int


def find(sessions: Sequence[Session], lake: Lake | None, condition: str) -> list[MessageCount]:
    """Count the messages that match the condition, in all places: in each partition, by queue.

    Raises erasure.ConditionError or a Spark error for an invalid condition.
    """
    found = []
    for session in sessions:
        for place in erasure.WAITING:
            waiting = erasure.count_waiting(session, place, condition)
            found += [MessageCount(place, queue, None, number) for queue, number in waiting]
        live = erasure.count_live(session, condition)
        found += [MessageCount("live", queue, None, number) for queue, number in live]
    for session in sessions:
        settled = erasure.count_history(session, condition)
        found += [MessageCount("history", *row) for row in settled]
    if lake is not None:
        rows = (
            lake.frame()
            .where(condition)
            .groupBy("queue", "day")
            .count()
            .orderBy("day", "queue")
            .collect()
        )
        found += [MessageCount("lake", row["queue"], str(row["day"]), row["count"]) for row in rows]
    return found


def erase(
    sessions: Sequence[Session], lake: Lake | None, condition: str
) -> Iterator[tuple[str, int]]:
    """Erase the messages that match the condition; yield the place and the count of each step.

    `sessions` must be the schema owner's, in autocommit, one for each partition. Raises like
    `find`, after which the yielded steps are committed and it can be run again.
    """
    for session in sessions:
        yield from _erase_in(session, condition)
    if lake is not None:
        _note_archived(sessions, lake, condition)
        # Not the condition, which may contain personal data.
        reason = f"forget {sha256(condition.encode()).hexdigest()[:16]}"
        yield "lake", lake.erase(condition, reason=reason)


def _note_archived(sessions: Sequence[Session], lake: Lake, condition: str) -> None:
    """Subtract what is about to be erased from the rows that databases have recorded of the lake.

    Before the erasure: if that fails, the lake has more than is recorded, which is no loss.
    """
    table, matching = lake.table, lake.count(condition)
    for session in sessions:
        database = history.server(session).database
        # A database that the lake has nothing of has recorded nothing of it.
        own = {number for number, each in table.databases.items() if each == database}
        for (day, partition), rows in matching.items():
            if partition in own or (own and not table.has_partitions):
                erasure.note_archived(session, table.identifier, day, rows)


def _erase_in(session: Session, condition: str) -> Iterator[tuple[str, int]]:
    # Before live ones: they may be sent meanwhile.
    for place in erasure.WAITING:
        if erased := erasure.erase_waiting(session, place, condition):
            yield place, erased
    for queue_id, ids, message_ids in erasure.live(session, condition):
        for start in range(0, len(ids), CHUNK):
            chunk = slice(start, start + CHUNK)
            erasure.erase_live(session, queue_id, ids[chunk], message_ids[chunk])
            yield "live", len(ids[chunk])
    for day in erasure.days(session, condition):
        yield "history", erasure.erase_day(session, condition, day)
    erasure.erase_filters(session)


def vacuum(sessions: Sequence[Session], days: Sequence[str]) -> None:
    """Vacuum the tables of erased rows, whose contents otherwise remain in the tables' files.

    Write-ahead logs and backups are not affected.
    """
    # Of the history the partitions of these days alone, which may be a few of hundreds.
    tables = [each for each in erasure.TABLES if each != "history"]
    tables += ["history_default", *(f"history_{day.replace('-', '')}" for day in days)]
    for session in sessions:
        erasure.vacuum(session, tables)


def report(
    before: Sequence[MessageCount], after: Sequence[MessageCount], erased: Mapping[str, int]
) -> Mapping[str, Any]:
    """Return the matching messages before, the counts erased by place, and those remaining."""
    return {
        "found": [asdict(each) for each in before],
        "erased": dict(erased),
        "remaining": [asdict(each) for each in after],
    }
