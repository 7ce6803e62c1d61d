"""The topics that a node has in use, so that a publish is one statement."""

from collections.abc import Callable
from time import monotonic

from skipmq.broker import topics
from skipmq.broker.queues import CACHE_SECONDS
from skipmq.broker.topics import Topic
from skipmq.database.partitions import Database
from skipmq.protocol.identity import TopicName

_CACHED = 10_000


class Topics:
    """Topics by their names, as they were at most CACHE_SECONDS ago; for one loop.

    `announce` is called with the ARN of a topic that this node has changed, and its id if known.
    """

    def __init__(self, database: Database, announce: Callable[[str, int | None], None]) -> None:
        self._database, self._announce = database, announce
        self._cache: dict[str, tuple[float, Topic]] = {}

    async def find(self, name: TopicName, deadline: float) -> Topic:
        """Return a topic; raise sns.errors.NotFound."""
        until, known = self._cache.get(name.arn, (0.0, None))
        if known is not None and until > monotonic():
            return known
        now = monotonic()
        topic = await topics.find(self._database, name, deadline)
        if len(self._cache) >= _CACHED:
            self._cache.clear()
        self._cache[name.arn] = (now + CACHE_SECONDS, topic)
        return topic

    def forget(self, arn: str | None) -> None:
        """Remove a topic, or all, from the cache."""
        if arn is None:
            self._cache.clear()
        else:
            self._cache.pop(arn, None)

    def changed(self, name: TopicName, id_: int | None = None) -> None:
        """Remove a topic from all nodes' caches."""
        self.forget(name.arn)
        self._announce(name.arn, id_)
