"""Rate limits of access keys and queues: a token bucket for each."""

from time import monotonic

from skipmq import errors

_BUCKETS = 10_000


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
