"""Erasing messages wherever they are: live, in the history, in the lake.

The condition is SQL over the columns of the history, understood by PostgreSQL and by Spark alike;
live messages have no `settled_at`, `outcome`, `node` and `xid`. Live messages come first: what is
settled meanwhile is then in the history, and an export waits for the lake's lock.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

from skipmq.analytics.lake import Lake
from skipmq.analytics.postgres import erasure
from skipmq.database.session import Session

# Messages erased in one transaction.
CHUNK = 500


@dataclass(frozen=True, slots=True)
class Found:
    """Messages of a place (`live`, `history`, `lake`), queue and day of settlement (none: live)."""

    place: str
    queue: str
    day: str | None
    messages: int


def find(session: Session, lake: Lake | None, condition: str) -> list[Found]:
    """Count the messages that fulfil the condition, in all places.

    Raises erasure.ConditionError or a Spark error when the condition cannot be understood.
    """
    found = [
        *(Found("live", queue, None, n) for queue, n in erasure.count_live(session, condition)),
        *(Found("history", *row) for row in erasure.count_history(session, condition)),
    ]
    if lake is not None:
        rows = (
            lake.frame()
            .where(condition)
            .groupBy("queue", "day")
            .count()
            .orderBy("day", "queue")
            .collect()
        )
        found += [Found("lake", row["queue"], str(row["day"]), row["count"]) for row in rows]
    return found


def erase(session: Session, lake: Lake | None, condition: str) -> Iterator[tuple[str, int]]:
    """Erase those messages; give the place and the number of each step that is done.

    `session` is the schema's owner's, in autocommit. Raises as `find` does; what was given is
    erased then, and it can be run again.
    """
    # What a replay had not sent yet it stages again, from what is left.
    if unsent := erasure.erase_unsent_replays(session):
        yield "replay", unsent
    for queue_id, ids in erasure.live(session, condition):
        for start in range(0, len(ids), CHUNK):
            chunk = ids[start : start + CHUNK]
            erasure.erase_live(session, queue_id, chunk)
            yield "live", len(chunk)
    for day in erasure.days(session, condition):
        yield "history", erasure.erase_day(session, condition, day)
    if lake is not None:
        # The condition itself may name a person.
        reason = f"forget {sha256(condition.encode()).hexdigest()[:16]}"
        yield "lake", lake.erase(condition, reason=reason)


def vacuum(session: Session, days: Sequence[str]) -> None:
    """Have the space of erased rows overwritten: until then they are in the files of the tables.

    Write-ahead log and backups keep them for as long as they are kept.
    """
    partitions = [f"history_{day.replace('-', '')}" for day in days]
    erasure.vacuum(session, ["message", "replay_message", "history_default", *partitions])


def report(
    before: Sequence[Found], after: Sequence[Found], erased: Mapping[str, int]
) -> Mapping[str, Any]:
    """Return what was found, what was erased by place, and what is left."""
    return {
        "found": [asdict(found) for found in before],
        "erased": dict(erased),
        "remaining": [asdict(found) for found in after],
    }
