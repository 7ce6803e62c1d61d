"""The turns of queues that wait for one transaction."""

from collections import deque
from collections.abc import Sequence
from itertools import chain
from typing import Protocol, TypeVar


class Weighted(Protocol):
    """A request of a queue."""

    @property
    def queue_id(self) -> int:
        """The queue that it is for."""

    @property
    def weight(self) -> int:
        """Its share of what a transaction takes."""


Request = TypeVar("Request", bound=Weighted)


def in_turn(requests: Sequence[Request], most: int) -> tuple[list[Request], list[Request]]:
    """Return one request of each queue, then another one of each, and those that are too many.

    The weights of the first add up to `most` at most, unless it is one request. Of the others, the
    queue whose turn is next comes first.
    """
    queues: dict[int, deque[Request]] = {}
    for request in requests:
        queues.setdefault(request.queue_id, deque()).append(request)
    turns = deque(queues.values())
    taken: list[Request] = []
    weight = 0
    while turns and (not taken or weight + turns[0][0].weight <= most):
        request = turns[0].popleft()
        taken.append(request)
        weight += request.weight
        if turns[0]:
            turns.rotate(-1)
        else:
            turns.popleft()
    return taken, list(chain.from_iterable(turns))
