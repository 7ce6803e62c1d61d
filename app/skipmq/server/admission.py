"""The limit of concurrent requests of a worker; excess requests get 503."""

from time import monotonic

from skipmq import errors
from skipmq.database import Observer
from skipmq.telemetry.logs import log

# Seconds without a refused request after which an overload has ended.
QUIET = 5.0


class Admission:
    """A limit of concurrent `with` blocks, one for each request; for one loop.

    Entering one raises errors.Overloaded at the limit. `refused` counts each errors.Overloaded,
    including those raised in the block.
    """

    def __init__(self, limit: int, observer: Observer, quiet: float = QUIET) -> None:
        self.limit = limit
        self.active = self.refused = 0
        self._observer = observer
        self._quiet = quiet
        self._refused_last: float | None = None
        self._refused_before = 0

    def __enter__(self) -> None:
        if self.active >= self.limit:
            self._count_refusal()
            raise errors.Overloaded
        self.active += 1
        if self._refused_last is not None and monotonic() - self._refused_last > self._quiet:
            self._refused_last = None
            log.warning("no longer refusing requests", refused=self.refused - self._refused_before)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.active -= 1
        if kind is not None and issubclass(kind, errors.Overloaded):
            self._count_refusal()

    def _count_refusal(self) -> None:
        # Log an overload once, and not for each request.
        if self._refused_last is None:
            self._refused_before = self.refused
            log.warning("refusing requests", active=self.active)
        self.refused += 1
        self._observer.count("refused")
        self._refused_last = monotonic()
