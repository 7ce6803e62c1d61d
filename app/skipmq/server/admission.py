"""The limits of a worker: its concurrent requests, and the rates of access keys and queues."""

from time import monotonic

from skipmq.protocol import errors
from skipmq.telemetry.logs import log
from skipmq.telemetry.metrics import Observer

# Seconds without a refused request after which an overload has ended.
QUIET = 5.0
_BUCKETS = 10_000


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


class Rate:
    """A rate limit with a token bucket for each name; for one loop.

    A bucket holds `burst` requests, or those of one second.
    """

    def __init__(self, per_second: float, burst: float = 1.0) -> None:
        self._rate = per_second
        self._capacity = max(per_second, burst)
        # Tokens, and the time of time.monotonic when they were counted.
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, name: str) -> None:
        """Take a token for a request; raise errors.ThrottlingException if there is none."""
        now = monotonic()
        tokens, since = self._buckets.get(name, (self._capacity, now))
        tokens = min(self._capacity, tokens + (now - since) * self._rate)
        if tokens < 1:
            raise errors.ThrottlingException
        if name not in self._buckets and len(self._buckets) >= _BUCKETS:
            self._remove_full(now)
        self._buckets[name] = (tokens - 1, now)

    def __len__(self) -> int:
        """Return the number of buckets."""
        return len(self._buckets)

    def _remove_full(self, now: float) -> None:
        """Remove full buckets, or all if few are full, since each removal takes time."""
        left = {
            name: (tokens, since)
            for name, (tokens, since) in self._buckets.items()
            if tokens + (now - since) * self._rate < self._capacity
        }
        self._buckets = left if len(left) < _BUCKETS // 2 else {}
