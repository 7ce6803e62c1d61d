"""Functions of the owner of a temporary database, for tests: move its clock, empty an account.

The clock moves for every session of the server, so that it is never done to a server that others
use. Roles go by a moved clock only with a right that is granted here, and that has no other effect.
"""

import asyncio
from collections.abc import Sequence

from skipmq.database.partitions import Database
from skipmq.database.statement import TEXT, UUIDS, Statement
from skipmq.server.ephemeral.snapshots import Snapshots

_ADMIT = Statement("grant set on parameter skipmq.clock_offset to public")
_RELOAD = Statement("select pg_reload_conf()")
_OFFSET = Statement("select coalesce(current_setting('skipmq.clock_offset', true), '')")
_DELETE_TOPICS = Statement("delete from skipmq.topic t where t.account = $1", TEXT)
_DELETE_SCHEDULES = Statement(
    "select from skipmq.schedule s, skipmq.change_schedule(s.name, 'delete', s.account, s.region)"
    " where s.account = $1",
    TEXT,
)
_DELETE = Statement(
    "select from skipmq.queue q, lateral skipmq.delete_queue(q.queue_id) where q.account = $1", TEXT
)
# What was done at a time that is in the future again: it bars a name, or a purge.
_RETIRED = Statement(
    "update skipmq.generation set retired_at = skipmq.clock() where retired_at > skipmq.clock()"
)
_PURGED = Statement("update skipmq.queue set purged_at = null where purged_at > skipmq.clock()")
# Otherwise changes of counts from now on are too old to be looked for.
_COUNTED = Statement(
    "with held as (select skipmq.hold_job('fold_counts', true))"
    " update skipmq.cluster c set counted_to = least(c.counted_to, skipmq.clock()) from held"
)
# With the same message id, which says to a consumer that it has had the message.
_COPY = Statement(
    """
with copied as (
  insert into skipmq.message (
    id, visible_at, sent_at, enqueued_at, first_received_at, queue_id, receive_count, receive_base,
    arrival_count, shard, message_id, group_id, sender, trace_header, dead_letter_source,
    attributes, body, failures)
  select
    nextval('skipmq.message_id_seq'), skipmq.clock(), m.sent_at, m.enqueued_at, m.first_received_at,
    m.queue_id, m.receive_count, m.receive_base, m.arrival_count, m.shard, m.message_id, m.group_id,
    m.sender, m.trace_header, m.dead_letter_source, m.attributes, m.body, m.failures
  from skipmq.message m
  join skipmq.queue q using (queue_id)
  where q.account = $1 and q.name = $2 and m.message_id = any ($3) and m.visible_at > skipmq.clock()
  returning queue_id)
insert into skipmq.queue_delta (at, queue_id, change, event)
select skipmq.clock(), c.queue_id, count(*), 'moved-in' from copied c group by c.queue_id
""",
    TEXT,
    TEXT,
    UUIDS,
    repeatable=False,
)
_PAUSE = 0.001


class Ephemeral:
    """The owner's functions on a temporary database, and on the sessions of its only node."""

    def __init__(self, owner_url: str, node: Database, connections: int) -> None:
        self._owner = Database(owner_url, size=1, application_name="skipmq tests")
        self._node, self._connections = node, connections
        self.snapshots = Snapshots(self._owner)
        # Seconds by which the clock is ahead.
        self.offset = 0.0
        self._moving = asyncio.Lock()

    async def advance(self, seconds: float, limit: float) -> bool:
        """Put the clock `seconds` further ahead; return when the node uses it.

        Return whether it is at most `limit` seconds ahead then; otherwise it stays.
        """
        async with self._moving:
            if self.offset + seconds > limit:
                return False
            await self._move_clock(self.offset + seconds)
            return True

    async def put_back(self, offset: float = 0.0) -> None:
        """Put the clock `offset` seconds ahead of the machine's; return when the node uses it."""
        async with self._moving:
            await self._move_clock(offset)

    async def _move_clock(self, offset: float) -> None:
        if offset == self.offset:
            return
        if not self.offset:
            await self._owner.rows(_ADMIT)
        setting = f"{offset} s" if offset else ""
        await self._owner.rows(Statement(f"alter system set skipmq.clock_offset = '{setting}'"))
        await self._owner.rows(_RELOAD)
        # No session says when it has read its settings.
        while await self._offsets() != {setting}:  # noqa: ASYNC110
            await asyncio.sleep(_PAUSE)
        is_put_back, self.offset = offset < self.offset, offset
        if is_put_back:
            await self._owner.rows(_RETIRED)
            await self._owner.rows(_PURGED)
            await self._owner.rows(_COUNTED)

    async def _offsets(self) -> set[str]:
        """Return what the sessions of the node go by."""
        asked = (self._node.rows(_OFFSET) for _ in range(self._connections))
        return {offset for ((offset,),) in await asyncio.gather(*asked)}

    async def copy_messages(self, account: str, name: str, message_ids: Sequence[str]) -> None:
        """Have messages in flight in a standard queue be there once more, and visible."""
        await self._owner.rows(_COPY, (account, name, list(message_ids)))

    async def delete_queues(self, account: str) -> None:
        """Delete all queues, topics and schedules of an account."""
        await self._owner.rows(_DELETE, (account,))
        await self._owner.rows(_DELETE_TOPICS, (account,))
        await self._owner.rows(_DELETE_SCHEDULES, (account,))
