"""The catalogue of queues."""

from collections.abc import Mapping, Sequence

import msgspec

from skipmq.model import Queue, QueueName
from skipmq.store.engine import Database


class Queues:
    """The queue functions of the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(
        self,
        name: QueueName,
        *,
        attributes: Mapping[str, str],
        tags: Mapping[str, str],
        history_mode: str,
        cooldown: float,
    ) -> None:
        """Create a queue, or find the one of that name and attributes.

        Raises errors.QueueNameExists when an attribute differs, errors.QueueDeletedRecently within
        `cooldown` seconds of the deletion of the same name.
        """
        self._database.rows(
            "select skipmq.create_queue"
            "(%s, %s::jsonb, %s::jsonb, %s, %s, %s, make_interval(secs => %s))",
            (
                name.name,
                _json(attributes),
                _json(tags),
                name.account,
                name.region,
                history_mode,
                cooldown,
            ),
        )

    def get(self, name: QueueName) -> Queue | None:
        """Return the queue of that name, if there is one."""
        rows = self._database.rows(
            "select queue_id, fifo, attributes, tags, extract(epoch from created_at)::bigint,"
            " extract(epoch from modified_at)::bigint from skipmq.get_queue(%s, %s, %s)",
            (name.name, name.account, name.region),
        )
        return Queue(name, *rows[0]) if rows else None

    def names(self, account: str, region: str, prefix: str, after: str, limit: int) -> list[str]:
        """Return the names of queues in order, from the one after `after` on."""
        rows = self._database.rows(
            "select name from skipmq.list_queues(%s, %s, %s, %s, %s::int) name",
            (account, region, prefix, after, limit),
        )
        return [name for (name,) in rows]

    def dead_letter_sources(self, name: QueueName, after: str, limit: int) -> list[str]:
        """Return the names of the queues whose dead-letter queue this is, after `after`."""
        rows = self._database.rows(
            "select name from skipmq.dead_letter_sources(%s, %s, %s, %s, %s::int) name",
            (name.account, name.region, name.name, after, limit),
        )
        return [source for (source,) in rows]

    def set_attributes(self, queue_id: int, attributes: Mapping[str, str]) -> None:
        """Change the attributes named; raise errors.QueueMoved when the queue is gone."""
        self._database.rows(
            "select from skipmq.set_queue_attributes(%s, %s::jsonb)", (queue_id, _json(attributes))
        )

    def replace_policy(self, queue_id: int, *, old: str, new: str) -> bool:
        """Set the policy if it still is `old`; tell whether it was.

        Raises errors.QueueMoved when the queue is gone.
        """
        ((replaced,),) = self._database.rows_once(
            "select skipmq.replace_policy(%s, %s, %s)", (queue_id, old, new)
        )
        return bool(replaced)

    def tag(self, queue_id: int, tags: Mapping[str, str]) -> None:
        """Add tags; raise errors.InvalidParameterValueException when they become too many."""
        self._database.rows("select from skipmq.tag_queue(%s, %s::jsonb)", (queue_id, _json(tags)))

    def untag(self, queue_id: int, keys: Sequence[str]) -> None:
        """Remove the tags of these keys."""
        self._database.rows(
            "select from skipmq.untag_queue(%s, %s::text[])", (queue_id, list(keys))
        )

    def delete(self, queue_id: int) -> None:
        """Delete a queue; raise errors.QueueMoved when it is not there any more."""
        self._database.rows_once("select from skipmq.delete_queue(%s)", (queue_id,))

    def purge(self, queue_id: int, cooldown: float) -> None:
        """Empty a queue at once.

        Raises errors.PurgeQueueInProgress within `cooldown` seconds of the last purge.
        """
        self._database.rows_once(
            "select skipmq.purge_queue(%s, make_interval(secs => %s))", (queue_id, cooldown)
        )

    def receipt_key(self) -> bytes:
        """Return the key that authenticates receipt handles, the same for all nodes."""
        return bytes(self._database.rows("select skipmq.receipt_key()")[0][0])


def _json(mapping: Mapping[str, str]) -> str:
    return msgspec.json.encode(mapping).decode()
