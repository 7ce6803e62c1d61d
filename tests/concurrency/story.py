"""Small histories, made by hand, and what the rules say of them."""

from typing import Any

from cluster.history import Op
from cluster.story import QUEUE, op, settle
from concurrency.rules import RULES, broken

(
    LOST,
    INVENTED,
    UNDELETED,
    PURGED,
    SHARED,
    REFUSED,
    DOUBLED,
    MISCOUNTED,
    DEAD_LETTERED,
    LEFT,
    MISNUMBERED,
    DISORDERED,
    OVERTAKEN,
    REPEATED,
    EXCEEDED,
    HURRIED,
    OVERLOOKED,
    DIVIDED,
) = RULES
DEAD = "dead"


def only(rule: str, *ops: Op) -> str:
    """Return the one thing that one rule says, when no other says anything."""
    found = broken([*ops])
    assert set(found) == {rule}, found
    (finding,) = found[rule]
    return finding


def kept(*ops: Op) -> None:
    assert broken([*ops]) == {}


def purge(at: float, queue: str = QUEUE, **more: Any) -> Op:
    return op("purge", at, queue=queue, **more)


def leave(at: float, **more: Any) -> Op:
    more = {"queue": QUEUE, "value": "0", "visibility": 6} | more
    return op("leave", at, **more)


def kill(at: float) -> Op:
    return op("kill", at, value="0", took=2)


def redriving(most: int = 1, home: str = QUEUE) -> Op:
    return op("queue", 0, queue=home, value=DEAD, receive_count=most, took=0)


def ended(received: Op, after: float = 1) -> list[Op]:
    """Give what was received, and its delete."""
    return [received, settle("delete", received.t_ok + after, received)]
