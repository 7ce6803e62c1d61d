"""Functions of the owner of a temporary database, for tests: its clock, accounts and snapshots.

The clock moves for every session of the server, so that it is never done to a server that others
use. Roles go by a moved clock only with a right that is granted here, and that has no other effect.
"""

import asyncio
from collections.abc import Sequence
from itertools import count

from skipmq.database.partitions import Database
from skipmq.database.statement import INTEGER, TEXT, UUIDS, Statement

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
_SCHEMA = Statement("create schema if not exists skipmq_test")
# Of every table with rows of a queue, of message tasks, which name queues by ARNs, of topics and
# of schedules.
_FUNCTION = Statement(
    """
create or replace function skipmq_test.snapshot(p_account text, p_number integer, p_act text)
returns void
language plpgsql
set lock_timeout = '5s'
as $$
declare
  v_ids bigint[];
  v_table text;
  v_own text;
begin
  -- No job of the janitor runs meanwhile.
  perform from skipmq.job j order by j.name for update;
  select array_agg(g.queue_id) into v_ids
  from skipmq.generation g where g.account = p_account;
  for v_table, v_own in
    select
      c.relname,
      case c.relname
        when 'move_task' then 'split_part(t.source_arn, '':'', 5) = $1'
        when 'topic' then 't.account = $1'
        when 'schedule' then 't.account = $1'
        when 'schedule_tick' then 't.account = $1'
        when 'subscription' then
          'exists (select from skipmq.topic o where o.topic_id = t.topic_id and o.account = $1)'
        else 't.queue_id = any ($2)'
      end
    from pg_class c
    where c.relnamespace = 'skipmq'::regnamespace
      and c.relkind in ('r', 'p') and not c.relispartition
      and (c.relname in ('move_task', 'topic', 'subscription', 'schedule', 'schedule_tick')
      or exists (
        select from pg_attribute a
        where a.attrelid = c.oid and a.attname = 'queue_id' and not a.attisdropped))
    -- A topic goes with its subscriptions.
    order by c.relname = 'subscription'
  loop
    if p_act = 'drop' then
      execute format('delete from skipmq_test.%I s where s.number = $1', v_table) using p_number;
    elsif p_act = 'restore' then
      execute format('delete from skipmq.%I t where %s', v_table, v_own) using p_account, v_ids;
      execute format(
        'insert into skipmq.%1$I
         select (s.content).* from skipmq_test.%1$I s where s.number = $1', v_table)
        using p_number;
    else
      execute format(
        'create unlogged table if not exists skipmq_test.%1$I
         (number integer, content skipmq.%1$I)', v_table);
      execute format(
        'insert into skipmq_test.%1$I select $3, t from skipmq.%1$I t where %2$s', v_table, v_own)
        using p_account, v_ids, p_number;
    end if;
  end loop;
  if p_act = 'restore' then
    -- Changes of counts are looked for among the newest.
    update skipmq.queue_delta d set at = skipmq.clock()
    from skipmq.generation g
    where g.account = p_account and d.queue_id = g.queue_id;
  end if;
end $$
"""
)
_SNAPSHOT = Statement(
    "select from skipmq_test.snapshot($1, $2, $3)", TEXT, INTEGER, TEXT, repeatable=False
)
_PAUSE = 0.001


class Snapshots:
    """The snapshots of a temporary database; for one loop.

    The rows of one are copies in tables of a schema of their own, which is made with the first one.
    No other database ever has it.
    """

    def __init__(self, owner: Database) -> None:
        self._owner = owner
        self._lock = asyncio.Lock()
        # By number: of which account, and by how many seconds the clock was ahead.
        self._taken: dict[int, tuple[str, float]] = {}
        self._numbers = count(1)
        self._is_prepared = False

    async def take(self, account: str, offset: float) -> int:
        """Keep the rows of an account's queues; return the number of the snapshot."""
        async with self._lock:
            if not self._is_prepared:
                await self._owner.rows(_SCHEMA)
                await self._owner.rows(_FUNCTION)
                self._is_prepared = True
            number = next(self._numbers)
            await self._owner.rows(_SNAPSHOT, (account, number, "take"))
            self._taken[number] = account, offset
            return number

    def offset(self, account: str, number: int) -> float | None:
        """Return by how many seconds the clock was ahead; None if the account has no such one."""
        taken_of, offset = self._taken.get(number, ("", 0.0))
        return offset if taken_of == account else None

    async def restore(self, account: str, number: int) -> None:
        """Put the rows of a snapshot in the place of those that the account has."""
        async with self._lock:
            await self._owner.rows(_SNAPSHOT, (account, number, "restore"))

    async def drop(self, account: str, number: int) -> None:
        """Delete a snapshot."""
        async with self._lock:
            await self._owner.rows(_SNAPSHOT, (account, number, "drop"))
            del self._taken[number]


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
