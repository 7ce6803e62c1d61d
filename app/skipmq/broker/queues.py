"""The catalogue of queues, with a cache of those in use."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from time import monotonic
from typing import Any, TypeVar

import msgspec

from skipmq.broker.messages.group_commit import GroupCommit
from skipmq.database.partitions import Database
from skipmq.database.statement import (
    BIGINT,
    INTEGER,
    INTERVAL,
    JSONB,
    TEXT,
    TEXTS,
    Lookup,
    Rows,
    Search,
    Statement,
)
from skipmq.protocol import errors
from skipmq.protocol.identity import QueueName
from skipmq.protocol.queue_attributes import QueueAttributes


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue as last read from the database; times in seconds since 1970."""

    name: QueueName
    id: int
    fifo: bool
    attributes: QueueAttributes
    tags: Mapping[str, str]
    created_at: int
    modified_at: int


_CREATE = Statement(
    "select skipmq.create_queue($1, $2, $3, $4, $5, $6, $7)",
    TEXT, JSONB, JSONB, TEXT, TEXT, TEXT, INTERVAL,
)  # fmt: skip
_GET = Lookup(
    "select queue_id, fifo, attributes, tags, floor(extract(epoch from created_at))::bigint,"
    " floor(extract(epoch from modified_at))::bigint from skipmq.get_queue($1, $2, $3)",
    TEXT, TEXT, TEXT,
)  # fmt: skip
_PLACE = Statement("select skipmq.queue_place($1, $2, $3)", TEXT, TEXT, TEXT)
_LIST = Statement(
    "select name from skipmq.list_queues($1, $2, $3, $4, $5) name",
    TEXT, TEXT, TEXT, TEXT, INTEGER,
)  # fmt: skip
_PLACES = Search(
    "select account, region, queues from skipmq.queue_places($1, $2, $3)", TEXT, TEXT, INTEGER
)
_SOURCES = Search(
    "select name from skipmq.dead_letter_sources($1, $2, $3, $4, $5) name",
    TEXT, TEXT, TEXT, TEXT, INTEGER,
)  # fmt: skip
_SET_ATTRIBUTES = Statement("select from skipmq.set_queue_attributes($1, $2)", BIGINT, JSONB)
_REPLACE_POLICY = Statement(
    "select skipmq.replace_policy($1, $2, $3)", BIGINT, TEXT, TEXT, repeatable=False
)
_TAG = Statement("select from skipmq.tag_queue($1, $2)", BIGINT, JSONB)
_UNTAG = Statement("select from skipmq.untag_queue($1, $2)", BIGINT, TEXTS)
_DELETE = Statement("select skipmq.delete_queue($1)", BIGINT, repeatable=False)
_PURGE = Statement(
    "select messages from skipmq.purge_queue($1, $2)", BIGINT, INTERVAL, repeatable=False
)

# Nodes notify each other of changes; those made in SQL, or whose notification is lost, show after
# this time.
CACHE_SECONDS = 5.0
CACHED_QUEUES = 10_000
# Tries of an operation on a queue that is purged or created again meanwhile, and the pause between
# further ones: a queue that exists is then on its way to another partition.
_TRIES = 3
_PAUSE = 0.1
# One lookup answers all requests for a queue.
_UNLIMITED = 2**31

T = TypeVar("T")


class Queues:
    """Queues by their names from a cache, and what changes them; for one loop.

    `announce` is called with the ARN of a queue that this node has changed, and its id if known.
    """

    def __init__(
        self, database: Database, announce: Callable[[str, int | None], None] = lambda *_: None
    ) -> None:
        self._database, self._announce = database, announce
        # Concurrent lookups of a queue share one statement.
        self._lookups = GroupCommit(self._look_up, max_weight=_UNLIMITED)
        # By ARN, with the time of time.monotonic until which the entry is valid.
        self._cache: dict[str, tuple[float, Queue]] = {}
        # By ARN, the queue of another region that a URL stands for, or None, with the time until
        # which that is valid, and the changes before.
        self._elsewhere: dict[str, tuple[float, int, QueueName | None]] = {}
        # By ARN and account, lookups by other accounts than the owner's; None for absent queues.
        self._seen: dict[str, dict[str, tuple[float, Queue | None]]] = {}
        self._changes = 0
        # The partitions of queues that are not at home, by ARN; an old one is replaced when used.
        self._places: dict[str, int] = {}

    @property
    def cached(self) -> int:
        """Return the number of cached queues."""
        return len(self._cache)

    def known(self, name: QueueName) -> Queue | None:
        """Return a queue as it was at most CACHE_SECONDS ago, or None if it is to be looked up."""
        cached = self._cache.get(name.arn)
        return cached[1] if cached is not None and cached[0] > monotonic() else None

    async def find(self, name: QueueName, deadline: float) -> Queue:
        """Return a queue as it was at most CACHE_SECONDS ago.

        Raises errors.QueueDoesNotExist.
        """
        if (known := self.known(name)) is not None:
            return known
        now, changes = monotonic(), self._changes
        queue = await self._lookups.submit(name, None, 1, deadline)
        if queue is None:
            self._cache.pop(name.arn, None)
            raise errors.QueueDoesNotExist
        if changes == self._changes:  # Otherwise the row may be outdated.
            if len(self._cache) >= CACHED_QUEUES:
                self._cache.clear()
            self._cache[name.arn] = (now + CACHE_SECONDS, queue)
        return queue

    async def find_anywhere(self, name: QueueName, preferred: str, deadline: float) -> Queue:
        """Return a queue, or where its region has none that of another region of the account.

        `preferred` is the region that comes before others. Raises errors.QueueDoesNotExist.
        """
        until, changes, found = self._elsewhere.get(name.arn, (0.0, 0, None))
        if until > monotonic() and (found is not None or changes == self._changes):
            if found is None:
                raise errors.QueueDoesNotExist
            with suppress(errors.QueueDoesNotExist):
                return await self.find(found, deadline)
        try:
            return await self.find(name, deadline)
        except errors.QueueDoesNotExist:
            changes = self._changes
            places = await self.places(name.name, deadline, name.account)
        regions = {region for _, region, _ in places}
        region = preferred if preferred in regions else min(regions, default=None)
        found = QueueName(name.account, region, name.name) if region is not None else None
        if len(self._elsewhere) >= CACHED_QUEUES:
            self._elsewhere.clear()
        self._elsewhere[name.arn] = (monotonic() + CACHE_SECONDS, changes, found)
        if found is None:
            raise errors.QueueDoesNotExist
        return await self.find(found, deadline)

    async def seen_by(self, account: str, name: QueueName, deadline: float) -> Queue | None:
        """Return a queue that another account names, or None if it does not exist.

        The cache is per account and includes absent queues, so that the time of an answer does not
        reveal whether a queue exists or is in use.
        """
        now = monotonic()
        cached = self._seen.get(name.arn, {}).get(account)
        if cached is not None and cached[0] > now:
            return cached[1]
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
        """Run an operation on a queue, and retry if it was purged or created again meanwhile.

        While the queue is being moved to another partition it waits, until the deadline. `queue` is
        the queue if the caller has looked it up. Raises errors.QueueDoesNotExist,
        errors.ServiceUnavailable.
        """
        for tries in count(1):
            try:
                return await operation(queue or await self.find(name, deadline))
            except errors.QueueMoved:
                self.forget(name.arn)
                queue = None
            if tries >= _TRIES:
                if monotonic() + _PAUSE > deadline:
                    break
                await asyncio.sleep(_PAUSE)
        raise errors.ServiceUnavailable

    def forget(self, arn: str | None) -> None:
        """Remove a queue, or all, from the cache."""
        self._changes += 1
        if arn is None:
            self._cache.clear()
            self._elsewhere.clear()
            self._seen.clear()
        else:
            self._cache.pop(arn, None)
            self._elsewhere.pop(arn, None)
            self._seen.pop(arn, None)

    async def _write(
        self,
        statement: Statement,
        parameters: Sequence[object],
        name: QueueName,
        deadline: float,
        queue_id: int | None = None,
    ) -> Rows:
        """Run a statement that changes a queue, and remove the queue from all nodes' caches.

        Also if the statement fails: it may have been done. With `queue_id` it runs in the queue's
        partition.
        """
        try:
            return await self._database.rows(
                statement, parameters, deadline=deadline, tenant=queue_id
            )
        finally:
            self.forget(name.arn)
            self._announce(name.arn, queue_id)

    async def _look_up(
        self, name: QueueName, requests: Sequence[None], deadline: float
    ) -> list[Queue | None]:
        home = self._database.home(name.account, name.region, name.name)
        asked = self._places.get(name.arn, home)
        row = await self._get(name, asked, deadline)
        if row is None and asked is not None:
            before, asked = asked, await self._place(name, home, deadline)
            row = await self._get(name, asked, deadline) if asked != before else None
        if row is not None and asked is not None:
            there = self._database.number(row[0])
            if there != asked:  # It is being moved, and may have arrived.
                row = await self._get(name, there, deadline) or row
        if row is None:
            return [None] * len(requests)
        id_, fifo, attributes, tags, created_at, modified_at = row
        typed = QueueAttributes.from_texts(attributes)
        queue = Queue(name, id_, fifo, typed, tags, created_at, modified_at)
        return [queue] * len(requests)

    async def _get(
        self, name: QueueName, partition: int | None, deadline: float
    ) -> Sequence[Any] | None:
        rows = await self._database.rows(
            _GET,
            (name.name, name.account, name.region),
            deadline=deadline,
            tenant=self._database.tenant(partition),
        )
        return rows[0] if rows else None

    async def _place(self, name: QueueName, home: int | None, deadline: float) -> int | None:
        """Return the partition that has a queue, as its home knows it.

        It is kept, so that the queue no longer depends on its home.
        """
        key = (name.account, name.region, name.name)
        tenant = self._database.tenant(home)
        ((place,),) = await self._database.rows(_PLACE, key, deadline=deadline, tenant=tenant)
        if len(self._places) >= CACHED_QUEUES:
            self._places.clear()
        if place is None:
            self._places.pop(name.arn, None)
            return home
        self._places[name.arn] = place
        return int(place)

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
        """Create a queue, unless one of that name with the same attributes exists.

        Raises errors.QueueNameExists if an attribute differs, errors.QueueDeletedRecently within
        `cooldown` seconds of the deletion of a queue of that name.
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

    async def places(
        self, name: str | None, deadline: float, account: str | None = None, limit: int = 1_000
    ) -> list[tuple[str, str, int]]:
        """Return the accounts and regions that have queues (of a name), and how many."""
        rows = await self._database.rows(_PLACES, (name, account, limit), deadline=deadline)
        return [(account, region, queues) for account, region, queues in rows]

    async def set_attributes(
        self, queue: Queue, attributes: Mapping[str, str], deadline: float
    ) -> None:
        """Set these attributes; raise errors.QueueMoved if the queue was deleted or purged."""
        await self._write(_SET_ATTRIBUTES, (queue.id, _json(attributes)), queue.name, deadline)

    async def replace_policy(self, queue: Queue, *, old: str, new: str, deadline: float) -> bool:
        """Set the policy if it is still `old`; return whether it was.

        Raises errors.QueueMoved if the queue was deleted or purged.
        """
        parameters = (queue.id, old, new)
        ((replaced,),) = await self._write(
            _REPLACE_POLICY, parameters, queue.name, deadline, queue.id
        )
        return bool(replaced)

    async def tag(self, queue: Queue, tags: Mapping[str, str], deadline: float) -> None:
        """Add tags; raise errors.InvalidParameterValueException beyond the limit of tags."""
        await self._write(_TAG, (queue.id, _json(tags)), queue.name, deadline, queue.id)

    async def untag(self, queue: Queue, keys: Sequence[str], deadline: float) -> None:
        """Remove tags by their keys."""
        await self._write(_UNTAG, (queue.id, keys), queue.name, deadline, queue.id)

    async def delete(self, queue: Queue, deadline: float) -> int:
        """Delete a queue; return the number of its messages.

        Raises errors.QueueMoved if it was deleted or purged.
        """
        ((number,),) = await self._write(_DELETE, (queue.id,), queue.name, deadline, queue.id)
        return int(number)

    async def purge(self, queue: Queue, cooldown: float, deadline: float) -> int:
        """Delete all messages of a queue; return their number.

        Raises errors.PurgeQueueInProgress within `cooldown` seconds of the last purge.
        """
        parameters = (queue.id, cooldown)
        ((number,),) = await self._write(_PURGE, parameters, queue.name, deadline, queue.id)
        return int(number)


async def names(  # noqa: PLR0913, PLR0917 - each is a column.
    database: Database,
    account: str,
    region: str,
    prefix: str,
    after: str,
    limit: int,
    deadline: float,
) -> list[str]:
    """Return the names of up to `limit` queues in order, starting after `after`."""
    rows = await database.rows(_LIST, (account, region, prefix, after, limit), deadline=deadline)
    return [name for (name,) in rows]


async def dead_letter_sources(
    database: Database, name: QueueName, after: str, limit: int, deadline: float
) -> list[str]:
    """Return the names of up to `limit` sources of a dead-letter queue, after `after`."""
    rows = await database.rows(
        _SOURCES, (name.account, name.region, name.name, after, limit), deadline=deadline
    )
    return [source for (source,) in rows]


def _json(mapping: Mapping[str, str]) -> str:
    return msgspec.json.encode(mapping).decode()
