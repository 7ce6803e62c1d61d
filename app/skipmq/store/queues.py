"""The catalogue of queues, of which a node knows those in use."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from time import monotonic
from typing import TypeVar

import msgspec

from skipmq import errors
from skipmq.database import Database, Rows, Statement
from skipmq.database.statement import INTEGER, INTERVAL, JSONB, TEXT, TEXTS
from skipmq.delivery.group_commit import GroupCommit
from skipmq.model import Queue, QueueName
from skipmq.queue_attributes import QueueAttributes

_CREATE = Statement(
    "select skipmq.create_queue($1, $2, $3, $4, $5, $6, $7)",
    TEXT, JSONB, JSONB, TEXT, TEXT, TEXT, INTERVAL,
)  # fmt: skip
_GET = Statement(
    "select queue_id, fifo, attributes, tags, extract(epoch from created_at)::bigint,"
    " extract(epoch from modified_at)::bigint from skipmq.get_queue($1, $2, $3)",
    TEXT, TEXT, TEXT,
)  # fmt: skip
_LIST = Statement(
    "select name from skipmq.list_queues($1, $2, $3, $4, $5) name",
    TEXT, TEXT, TEXT, TEXT, INTEGER,
)  # fmt: skip
_SOURCES = Statement(
    "select name from skipmq.dead_letter_sources($1, $2, $3, $4, $5) name",
    TEXT, TEXT, TEXT, TEXT, INTEGER,
)  # fmt: skip
_SET_ATTRIBUTES = Statement("select from skipmq.set_queue_attributes($1, $2)", INTEGER, JSONB)
_REPLACE_POLICY = Statement(
    "select skipmq.replace_policy($1, $2, $3)", INTEGER, TEXT, TEXT, repeatable=False
)
_TAG = Statement("select from skipmq.tag_queue($1, $2)", INTEGER, JSONB)
_UNTAG = Statement("select from skipmq.untag_queue($1, $2)", INTEGER, TEXTS)
_DELETE = Statement("select from skipmq.delete_queue($1)", INTEGER, repeatable=False)
_PURGE = Statement("select skipmq.purge_queue($1, $2)", INTEGER, INTERVAL, repeatable=False)


# What others change is notified at once; what is changed in SQL, or was missed, is known then.
CACHE_SECONDS = 5.0
CACHED_QUEUES = 10_000
# How often what is done on a queue is tried that is purged or created again meanwhile.
_TRIES = 3
# As many as come: one lookup answers them all.
_MANY = 2**31

T = TypeVar("T")


class Queues:
    """The queue functions of the database, and a cache of queues; for one loop.

    `announce` is called with the ARN of a queue that has been changed here.
    """

    def __init__(
        self, database: Database, announce: Callable[[str], None] = lambda _: None
    ) -> None:
        self._database, self._announce = database, announce
        # Of many requests that look the same queue up, one asks for all.
        self._lookups = GroupCommit(self._look_up, most=_MANY)
        # By ARN, with the time of time.monotonic until which it counts.
        self._cache: dict[str, tuple[float, Queue]] = {}
        # By ARN what other accounts than the owner's have seen of it, queues that are absent too.
        self._seen: dict[str, dict[str, tuple[float, Queue | None]]] = {}
        self._changes = 0

    @property
    def cached(self) -> int:
        """Return how many queues need not be looked up."""
        return len(self._cache)

    async def find(self, name: QueueName, deadline: float) -> Queue:
        """Return a queue as it was at most CACHE_SECONDS ago.

        Raises errors.QueueDoesNotExist.
        """
        now = monotonic()
        known = self._cache.get(name.arn)
        if known is not None and known[0] > now:
            return known[1]
        changes = self._changes
        queue = await self._lookups.submit(name, None, 1, deadline)
        if queue is None:
            self._cache.pop(name.arn, None)
            raise errors.QueueDoesNotExist
        if changes == self._changes:  # Otherwise it may be how it was before.
            if len(self._cache) >= CACHED_QUEUES:
                self._cache.clear()
            self._cache[name.arn] = (now + CACHE_SECONDS, queue)
        return queue

    async def seen_by(self, account: str, name: QueueName, deadline: float) -> Queue | None:
        """Return a queue that another account asks for, or None where there is none.

        Each account has the database asked for itself, whether there is the queue, and is used by
        others, or not: the time that an answer takes must not reveal it.
        """
        now = monotonic()
        known = self._seen.get(name.arn, {}).get(account)
        if known is not None and known[0] > now:
            return known[1]
        changes = self._changes
        queue = await self._lookups.submit(name, None, 1, deadline)
        if changes == self._changes:
            if len(self._seen) >= CACHED_QUEUES:
                self._seen.clear()
            self._seen.setdefault(name.arn, {})[account] = (now + CACHE_SECONDS, queue)
        return queue

    async def on(
        self,
        name: QueueName,
        deadline: float,
        operation: Callable[[Queue], Awaitable[T]],
        queue: Queue | None = None,
    ) -> T:
        """Run an operation on a queue, again if it was purged or created again meanwhile.

        `queue` is that queue where it has been looked up. Raises errors.QueueDoesNotExist.
        """
        for _ in range(_TRIES):
            try:
                return await operation(queue or await self.find(name, deadline))
            except errors.QueueMoved:
                self.forget(name.arn)
                queue = None
        raise errors.QueueDoesNotExist

    def forget(self, arn: str | None) -> None:
        """Look a queue up again the next time, or all of them."""
        self._changes += 1
        if arn is None:
            self._cache.clear()
            self._seen.clear()
        else:
            self._cache.pop(arn, None)
            self._seen.pop(arn, None)

    async def _write(
        self, statement: Statement, parameters: Sequence[object], name: QueueName, deadline: float
    ) -> Rows:
        """Run a statement that changes a queue, which is then looked up again, here and elsewhere.

        Where it fails too: it may have been done.
        """
        try:
            return await self._database.rows(statement, parameters, deadline=deadline)
        finally:
            self.forget(name.arn)
            self._announce(name.arn)

    async def _look_up(
        self, name: QueueName, requests: Sequence[None], deadline: float
    ) -> list[Queue | None]:
        rows = await self._database.rows(
            _GET, (name.name, name.account, name.region), deadline=deadline
        )
        if not rows:
            return [None] * len(requests)
        id_, fifo, attributes, tags, created_at, modified_at = rows[0]
        read = QueueAttributes.from_texts(attributes)
        queue = Queue(name, id_, fifo, read, tags, created_at, modified_at)
        return [queue] * len(requests)

    async def create(  # noqa: PLR0913 - each is a column.
        self,
        name: QueueName,
        *,
        attributes: Mapping[str, str],
        tags: Mapping[str, str],
        history_mode: str,
        cooldown: float,
        deadline: float,
    ) -> None:
        """Create a queue, or find the one of that name and attributes.

        Raises errors.QueueNameExists when an attribute differs, errors.QueueDeletedRecently within
        `cooldown` seconds of the deletion of the same name.
        """
        parameters = (
            name.name,
            _json(attributes),
            _json(tags),
            name.account,
            name.region,
            history_mode,
            cooldown,
        )
        await self._write(_CREATE, parameters, name, deadline)

    async def names(  # noqa: PLR0913, PLR0917 - each is a column.
        self, account: str, region: str, prefix: str, after: str, limit: int, deadline: float
    ) -> list[str]:
        """Return the names of queues in order, from the one after `after` on."""
        rows = await self._database.rows(
            _LIST, (account, region, prefix, after, limit), deadline=deadline
        )
        return [name for (name,) in rows]

    async def dead_letter_sources(
        self, name: QueueName, after: str, limit: int, deadline: float
    ) -> list[str]:
        """Return the names of the queues whose dead-letter queue this is, after `after`."""
        rows = await self._database.rows(
            _SOURCES, (name.account, name.region, name.name, after, limit), deadline=deadline
        )
        return [source for (source,) in rows]

    async def set_attributes(
        self, queue: Queue, attributes: Mapping[str, str], deadline: float
    ) -> None:
        """Change the attributes named; raise errors.QueueMoved when the queue is gone."""
        await self._write(_SET_ATTRIBUTES, (queue.id, _json(attributes)), queue.name, deadline)

    async def replace_policy(self, queue: Queue, *, old: str, new: str, deadline: float) -> bool:
        """Set the policy if it still is `old`; tell whether it was.

        Raises errors.QueueMoved when the queue is gone.
        """
        parameters = (queue.id, old, new)
        ((replaced,),) = await self._write(_REPLACE_POLICY, parameters, queue.name, deadline)
        return bool(replaced)

    async def tag(self, queue: Queue, tags: Mapping[str, str], deadline: float) -> None:
        """Add tags; raise errors.InvalidParameterValueException when they become too many."""
        await self._write(_TAG, (queue.id, _json(tags)), queue.name, deadline)

    async def untag(self, queue: Queue, keys: Sequence[str], deadline: float) -> None:
        """Remove the tags of these keys."""
        await self._write(_UNTAG, (queue.id, keys), queue.name, deadline)

    async def delete(self, queue: Queue, deadline: float) -> None:
        """Delete a queue; raise errors.QueueMoved when it does not exist any more."""
        await self._write(_DELETE, (queue.id,), queue.name, deadline)

    async def purge(self, queue: Queue, cooldown: float, deadline: float) -> None:
        """Empty a queue at once.

        Raises errors.PurgeQueueInProgress within `cooldown` seconds of the last purge.
        """
        await self._write(_PURGE, (queue.id, cooldown), queue.name, deadline)


def _json(mapping: Mapping[str, str]) -> str:
    return msgspec.json.encode(mapping).decode()
