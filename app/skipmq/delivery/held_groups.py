"""FIFO groups that other transactions hold: what is for them is tried again, apart from the rest.

The database waits for no group: it says which it could not have, and does the others. So nobody
waits for the transaction of somebody who works on a group by SQL but those who want that group.
"""

import asyncio
from collections.abc import Hashable, Iterator, Sequence
from time import monotonic
from typing import TypeVar

from skipmq.delivery.group_commit import GroupCommit

# What the database says of a message whose group is held.
_HELD = "held"
# How long a request waits for a group, and the pauses between its tries, in seconds.
_MOST_SECONDS, _FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 0.001, 0.1
Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")


def pauses(deadline: float) -> Iterator[float]:
    """Give the pauses before tries, in seconds, while one may wait for a group that is held."""
    yield 0
    until = min(deadline, monotonic() + _MOST_SECONDS)
    pause = _FIRST_PAUSE
    while monotonic() + pause < until:
        yield pause
        pause = min(2 * pause, _LONGEST_PAUSE)


async def passed(
    group_commit: GroupCommit[Key, Sequence[Item], list[str]],
    key: Key,
    items: Sequence[Item],
    deadline: float,
) -> list[str]:
    """Return each item's outcome; those whose groups others hold are tried again, by themselves."""
    outcomes = [_HELD] * len(items)
    for pause in pauses(deadline):
        if pause:
            await asyncio.sleep(pause)
        left = [place for place, outcome in enumerate(outcomes) if outcome == _HELD]
        chosen = [items[place] for place in left]
        found = await group_commit.submit(key, chosen, len(chosen), deadline)
        for place, outcome in zip(left, found, strict=True):
            outcomes[place] = outcome
        if _HELD not in outcomes:
            break
    return outcomes
