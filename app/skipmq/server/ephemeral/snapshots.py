"""Snapshots of an account's queues and messages in a temporary database, for tests.

The rows of a snapshot are copies in tables of a schema of their own, which is made with the first
one. No other database ever has it.
"""

import asyncio
from itertools import count

from skipmq.database.partitions import Database
from skipmq.database.statement import INTEGER, TEXT, Statement

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


class Snapshots:
    """The snapshots of a temporary database; for one loop."""

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
