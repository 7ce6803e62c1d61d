"""The catalogue of queues."""

from collections.abc import Mapping, Sequence

import msgspec

from skipmq.database import Database, Statement
from skipmq.database.statement import INTEGER, INTERVAL, JSONB, TEXT, TEXTS
from skipmq.model import Queue, QueueName

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


class Queues:
    """The queue functions of the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

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
        await self._database.rows(_CREATE, parameters, deadline=deadline)

    async def get(self, name: QueueName, deadline: float) -> Queue | None:
        """Return the queue of that name, if there is one."""
        rows = await self._database.rows(
            _GET, (name.name, name.account, name.region), deadline=deadline
        )
        return Queue(name, *rows[0]) if rows else None

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
        self, queue_id: int, attributes: Mapping[str, str], deadline: float
    ) -> None:
        """Change the attributes named; raise errors.QueueMoved when the queue is gone."""
        await self._database.rows(_SET_ATTRIBUTES, (queue_id, _json(attributes)), deadline=deadline)

    async def replace_policy(self, queue_id: int, *, old: str, new: str, deadline: float) -> bool:
        """Set the policy if it still is `old`; tell whether it was.

        Raises errors.QueueMoved when the queue is gone.
        """
        ((replaced,),) = await self._database.rows(
            _REPLACE_POLICY, (queue_id, old, new), deadline=deadline
        )
        return bool(replaced)

    async def tag(self, queue_id: int, tags: Mapping[str, str], deadline: float) -> None:
        """Add tags; raise errors.InvalidParameterValueException when they become too many."""
        await self._database.rows(_TAG, (queue_id, _json(tags)), deadline=deadline)

    async def untag(self, queue_id: int, keys: Sequence[str], deadline: float) -> None:
        """Remove the tags of these keys."""
        await self._database.rows(_UNTAG, (queue_id, keys), deadline=deadline)

    async def delete(self, queue_id: int, deadline: float) -> None:
        """Delete a queue; raise errors.QueueMoved when it does not exist any more."""
        await self._database.rows(_DELETE, (queue_id,), deadline=deadline)

    async def purge(self, queue_id: int, cooldown: float, deadline: float) -> None:
        """Empty a queue at once.

        Raises errors.PurgeQueueInProgress within `cooldown` seconds of the last purge.
        """
        await self._database.rows(_PURGE, (queue_id, cooldown), deadline=deadline)


def _json(mapping: Mapping[str, str]) -> str:
    return msgspec.json.encode(mapping).decode()
