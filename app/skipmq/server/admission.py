"""The limit of requests that a worker serves at once; those beyond it are refused at once."""

from time import monotonic

import structlog

from skipmq import errors
from skipmq.database import Observer

log = structlog.get_logger()

# Refusing is over when no request was refused for this many seconds.
QUIET = 5.0


class Admission:
    """Counts the requests in `with` blocks; for one loop. `refused` only ever grows.

    Entering raises errors.Overloaded where there are too many. Each errors.Overloaded counts as
    refused, that of the block too.
    """

    def __init__(self, most: int, observer: Observer, quiet: float = QUIET) -> None:
        self.most = most
        self.active = self.refused = 0
        self._observer = observer
        self._quiet = quiet
        self._refused_last: float | None = None
        self._refused_before = 0

    def __enter__(self) -> None:
        if self.active >= self.most:
            self._note_refusal()
            raise errors.Overloaded
        self.active += 1
        if self._refused_last is not None and monotonic() - self._refused_last > self._quiet:
            self._refused_last = None
            log.warning("no longer refusing requests", refused=self.refused - self._refused_before)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.active -= 1
        if kind is not None and issubclass(kind, errors.Overloaded):
            self._note_refusal()

    def _note_refusal(self) -> None:
        # Logged once each time: a line for each request would bury others.
        if self._refused_last is None:
            self._refused_before = self.refused
            log.warning("refusing requests", active=self.active)
        self.refused += 1
        self._observer.count("refused")
        self._refused_last = monotonic()
