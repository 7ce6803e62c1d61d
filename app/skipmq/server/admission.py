"""How many requests a worker takes on at once; what exceeds that is refused at once."""

from time import monotonic

import structlog

from skipmq import errors
from skipmq.database import Observer

log = structlog.get_logger()

# Refusing is over when nobody has been refused for so many seconds.
QUIET = 5.0


class Admission:
    """Counts requests in and out; for one loop. `refused` only ever grows.

    In a `with` block a request is counted in, and errors.Overloaded noted, its own too.
    """

    def __init__(self, most: int, observer: Observer, quiet: float = QUIET) -> None:
        self.most = most
        self.active = self.refused = 0
        self._observer = observer
        self._quiet = quiet
        self._refused_last: float | None = None
        self._refused_before = 0

    def __enter__(self) -> None:
        try:
            self.enter()
        except errors.Overloaded:
            self.note_refusal()
            raise

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.leave()
        if kind is not None and issubclass(kind, errors.Overloaded):
            self.note_refusal()

    def enter(self) -> None:
        """Count a request in, which must leave again.

        Raises errors.Overloaded when there are too many.
        """
        if self.active >= self.most:
            raise errors.Overloaded
        self.active += 1
        if self._refused_last is not None and monotonic() - self._refused_last > self._quiet:
            self._refused_last = None
            log.warning("no longer refusing requests", refused=self.refused - self._refused_before)

    def leave(self) -> None:
        """Count a request out."""
        self.active -= 1

    def note_refusal(self) -> None:
        """Note that a request was refused."""
        # Once each time: a line for each request would bury it.
        if self._refused_last is None:
            self._refused_before = self.refused
            log.warning("refusing requests", active=self.active)
        self.refused += 1
        self._observer.count("refused")
        self._refused_last = monotonic()
