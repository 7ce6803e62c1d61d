"""Outcomes that a handler raises, and the back-off of retries."""

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass

from skipmq.client.errors import check_seconds


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays of retries in seconds: `first`, doubled by each receive, `most` at most.

    Each is shortened by up to half of it at random, so that what failed together is not retried
    together.
    """

    first: float
    most: float

    def __post_init__(self) -> None:
        check_seconds("first", self.first)
        check_seconds("most", self.most)

    def seconds(self, receives: int) -> int:
        """Return the delay before retry number `receives`, in whole seconds."""
        return math.ceil(self.delay(receives))

    def delay(self, retry: int) -> float:
        """Return the delay before a retry, the first of which is number 1."""
        delay = min(self.most, self.first * 2.0 ** min(retry - 1, 64))
        return delay * random.uniform(0.5, 1)  # noqa: S311 - no secret.


# Of calls of a database or a node that does not answer, or is busy.
CALLS = Backoff(0.1, 5.0)


class Retry(Exception):  # noqa: N818 - an outcome.
    """Raised by a handler: roll back, and try again after some seconds.

    Without `after` it is tried again after the consumer's back-off, as after any other error.
    Raises ClientError for an `after` that is no number of seconds.
    """

    def __init__(self, reason: str = "", *, after: float | None = None) -> None:
        super().__init__(reason)
        if after is not None:
            check_seconds("after", after, -math.inf)
        self.after = after

    @staticmethod
    def backoff(first: float, *, most: float) -> Backoff:
        """Return delays of `first` seconds, doubled by each receive, `most` at most."""
        return Backoff(first, most)


class Discard(Exception):  # noqa: N818 - an outcome.
    """Raised by a handler: roll back, and delete the message; the log has the reason."""


class DeadLetter(Exception):  # noqa: N818 - an outcome.
    """Raised by a handler: roll back, and move the message to the queue's dead-letter queue.

    The reason is kept as its attribute FailureReason.
    """


class LostMessageError(Exception):
    """A message that was received by another before its handler was done; all is rolled back.

    Its visibility timeout ended: let it be extended, or make it longer.
    """


def has_failed(outcomes: Mapping[str, int]) -> bool:
    """Return whether a handler failed, be it for the last time."""
    return any(outcomes.get(name) for name in ("retried", "dead-lettered"))


def reason_of(error: BaseException) -> str:
    """Return the failure reason stored with a message: an error's class and text, or its reason.

    Without what no text of PostgreSQL can hold: NUL and lone surrogates.
    """
    is_given = isinstance(error, DeadLetter | Retry)
    text = str(error) if is_given else f"{type(error).__qualname__}: {error}"
    return text.encode(errors="replace").decode().replace("\0", " ")
