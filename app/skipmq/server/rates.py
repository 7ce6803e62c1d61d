"""How many requests a second an access key may make, or a queue get: a token bucket for each."""

from time import monotonic

from skipmq import errors

_BUCKETS = 10_000


class Rate:
    """Counts requests by what they are of; for one loop. A second's worth may come at once."""

    def __init__(self, per_second: float) -> None:
        self._rate = per_second
        self._most = max(per_second, 1.0)
        # Tokens, and the time of time.monotonic when there were so many.
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, name: str) -> None:
        """Count a request; raise errors.ThrottlingException when there are too many."""
        now = monotonic()
        tokens, since = self._buckets.get(name, (self._most, now))
        tokens = min(self._most, tokens + (now - since) * self._rate)
        if tokens < 1:
            raise errors.ThrottlingException
        if name not in self._buckets and len(self._buckets) >= _BUCKETS:
            self._forget(now)
        self._buckets[name] = (tokens - 1, now)

    def __len__(self) -> int:
        """Return how many are counted."""
        return len(self._buckets)

    def _forget(self, now: float) -> None:
        """Forget those that are full again, or all when few are: this takes time."""
        left = {
            name: (tokens, since)
            for name, (tokens, since) in self._buckets.items()
            if tokens + (now - since) * self._rate < self._most
        }
        self._buckets = left if len(left) < _BUCKETS // 2 else {}
