"""Move queues with their messages from one partition to another, so that a kill loses nothing.

The steps, each a transaction of one partition, and what the queue is after each:

1. Source: the queue's row becomes one of `relocation`, with the id that it will have in the target.
   Calls with the old id fail, lookups return the new one, and requests wait until it exists.
2. Source: all transactions that began before are awaited, so that no message is added or changed.
3. Target: the rows of its messages are copied under the new id, with those staged for it and the
   queue's row: it is served.
4. Home: the place of the name becomes the target.
5. Source: the row of `relocation` and what was staged are deleted; the janitor deletes the old
   messages.

The next run continues an interrupted move. The new generation's row decides between the two ends:
whether step 3 or `_cancel` has inserted it first.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any, LiteralString

import psycopg

from skipmq.database import maintenance
from skipmq.database.partitions import QUEUE_BITS, chosen
from skipmq.database.router import copying
from skipmq.database.router.partition_map import MapError, PartitionMap
from skipmq.database.session import one

# An advisory lock of the first partition: one process moves queues at a time.
_LOCK = 0x536B69704D72
_NAME = "skipmq partitions"
_PAUSE = 0.02
# Sessions of a mover that no longer holds the lock, as one whose path is gone or that is frozen.
_END_OTHERS = """
select count(*) filter (where pg_terminate_backend(a.pid, 10000)) from pg_stat_activity a
where a.datname = current_database() and a.usename = current_user
  and a.application_name = %s and a.pid <> pg_backend_pid()
"""
_BY_KEY: LiteralString = "where account = %s and region = %s and name = %s"
_ID = f"select queue_id from skipmq.queue {_BY_KEY}"
_TASKS = """
select count(*) from skipmq.move_task t
where t.status in ('RUNNING', 'CANCELLING') and (
  t.source_arn = any (%(arns)s) or t.destination_arn = any (%(arns)s))
"""
# Redrive policies that would tie these queues to others.
_TIES = """
select count(*) from skipmq.queue q
join skipmq.queue d
  on d.account = q.dead_letter_account and d.region = q.region and d.name = q.dead_letter_name
where (q.queue_id = any (%(ids)s)) <> (d.queue_id = any (%(ids)s))
"""
_BEGIN = """
with gone as (
  delete from skipmq.queue q where q.queue_id = %(old)s returning q.*
), retired as (
  update skipmq.generation g
  set retired_at = skipmq.clock(), retired_as = 'moved', history_mode = q.history_mode
  from gone q where g.queue_id = q.queue_id
)
insert into skipmq.relocation (queue_id, new_queue_id, account, region, name, queue)
select q.queue_id, %(new)s, q.account, q.region, q.name, to_jsonb(q) from gone q
"""
_RELOCATED = """
select queue_id, new_queue_id, account, region, name, queue::text
from skipmq.relocation order by queue_id
"""
# Topics stay with the queues that are subscribed to them.
_SUBSCRIBED = "select count(*) from skipmq.subscription s where s.endpoint = any (%(arns)s)"
# A schedule stays in its partition.
_SCHEDULED = """
select count(*) from skipmq.schedule s
where format('arn:aws:sqs:%%s:%%s:%%s', s.region, s.account, s.queue) = any (%(arns)s)
"""
# Every transaction has such a lock from its beginning on. Readers change nothing.
_OPEN = """
select l.pid, l.virtualtransaction from pg_locks l join pg_stat_activity a on a.pid = l.pid
where l.locktype = 'virtualxid' and l.granted and l.pid <> pg_backend_pid()
  and a.datname = current_database() and a.usename <> 'skipmq_reader'
  and coalesce(a.backend_type, '') <> 'autovacuum worker'
union all
select 0, 'prepared ' || p.gid from pg_prepared_xacts p where p.database = current_database()
"""
_GENERATIONS = """
insert into skipmq.generation (
  queue_id, account, region, name, history_mode, created_at, retired_at, retired_as)
select r.id, q.account, q.region, q.name, q.history_mode, skipmq.clock(),
  case when %(cancelled)s then skipmq.clock() end, case when %(cancelled)s then 'moved' end
from unnest(%(new)s::bigint[], %(queues)s::text[]) r (id, queue)
cross join lateral jsonb_populate_record(null::skipmq.queue, r.queue::jsonb) q
order by r.id
on conflict do nothing
"""
_IS_CANCELLED = """
select g.retired_as is not distinct from 'moved' from skipmq.generation g
where g.queue_id = any (%(new)s) limit 1
"""
_QUEUES = """
insert into skipmq.queue select q.*
from unnest(%(new)s::bigint[], %(queues)s::text[]) r (id, queue)
cross join lateral jsonb_populate_record(
  null::skipmq.queue, r.queue::jsonb || jsonb_build_object('queue_id', r.id)) q
"""
_RESTORE = """
with back as (
  delete from skipmq.relocation l where l.queue_id = any (%s) returning l.*
), current as (
  update skipmq.generation g set retired_at = null, retired_as = null
  from back where g.queue_id = back.queue_id
)
insert into skipmq.queue select q.* from back
cross join lateral jsonb_populate_record(null::skipmq.queue, back.queue) q
"""
# The janitor deletes the messages.
_END = """
with messages as (
  delete from skipmq.staged_message m where m.target = any (%(staged)s)
), batches as (
  delete from skipmq.staged_batch b where b.target = any (%(staged)s)
)
delete from skipmq.relocation l where l.queue_id = any (%(old)s)
"""
_COUNT = """
insert into skipmq.queue_delta (at, queue_id, change, event)
values (skipmq.clock(), %s, %s, 'moved-in')
"""
_PLACE = """
insert into skipmq.queue_place (account, region, name, partition) values (%s, %s, %s, %s)
on conflict (account, region, name) do update set partition = excluded.partition
"""


class BusyError(MapError):
    """Queues that cannot be moved now, and are where they were; the message has the remedy."""


@dataclass(frozen=True, slots=True)
class Move:
    """Queues that go together, by account, region and name, and their number of messages."""

    source: int
    target: int
    queues: tuple[tuple[str, str, str], ...]
    messages: int


@dataclass(frozen=True, slots=True)
class _Relocated:
    """A row of the table relocation; `queue` is the JSON of its row in the table queue."""

    old: int
    new: int
    account: str
    region: str
    name: str
    queue: str

    @property
    def staged(self) -> str:
        """The name under which messages are staged for the queue."""
        return f"{self.account}/{self.region}/{self.name}"


class Mover:
    """Moves queues between partitions, whose owners' addresses are given.

    Its methods raise MapError and psycopg.Error; `resume` continues what they began.
    """

    def __init__(self, urls: Sequence[str], whole: PartitionMap, seconds: float = 10.0) -> None:
        self._urls, self._map = urls, whole
        # That the transactions of the source are awaited; requests for the queues wait longer.
        self._seconds = seconds

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Exclude other processes that move queues of this map; raise BusyError if there is one."""
        with self._connected(0) as first:
            if not one(first, "select pg_try_advisory_lock(%s)", _LOCK)[0]:
                raise BusyError(
                    "another process moves queues of these partitions: wait for it, or, where it no"
                    f" longer works: {maintenance.holder(first, _LOCK)}"
                )
            first.execute(_END_OTHERS, (_NAME,))
            for number in range(1, len(self._urls)):
                with self._connected(number) as connection:
                    connection.execute(_END_OTHERS, (_NAME,))
            yield

    def resume(self) -> int:
        """Finish or undo the moves that were interrupted; return the number of queues."""
        number = 0
        for source in range(len(self._urls)):
            with self._connected(source) as connection:
                number += self._finish(connection)
        return number

    def move(self, move: Move) -> None:
        """Move queues with their messages; requests for them wait meanwhile.

        Raises BusyError when an open transaction or a task keeps them where they are.
        """
        with self._connected(move.target) as target:
            query = "select skipmq.new_queue_id() from generate_series(1, %s)"
            ids = [row[0] for row in target.execute(query, (len(move.queues),))]
        with self._connected(move.source) as connection:
            try:
                with connection.transaction():
                    _begin(connection, move.queues, ids)
            except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected) as error:
                names = ", ".join(name for _, _, name in move.queues)
                raise BusyError(
                    f"an open transaction has sent to {names}: end it ({error})"
                ) from error
            try:
                self._finish(connection)
            except psycopg.errors.UniqueViolation as error:
                raise BusyError(
                    f"partition {move.target} has the same queue or messages already: run `skipmq"
                    " partitions doctor`"
                ) from error

    def _finish(self, source: psycopg.Connection[Any]) -> int:
        rows = [_Relocated(*row) for row in source.execute(_RELOCATED)]
        for target in sorted({row.new >> QUEUE_BITS for row in rows}):
            self._finish_in(target, source, [r for r in rows if r.new >> QUEUE_BITS == target])
        return len(rows)

    def _finish_in(
        self, target: int, source: psycopg.Connection[Any], rows: list[_Relocated]
    ) -> None:
        try:
            _await_transactions(source, self._seconds)
            with self._connected(target) as connection:
                is_there = _copy(source, connection, rows)
        except (BusyError, psycopg.Error):
            with self._connected(target) as connection:
                if not _claim(connection, rows, is_cancelled=True):
                    raise
            # A connection of its own: that of the source may be what has failed.
            with self._connected(rows[0].old >> QUEUE_BITS) as connection:
                _restore(connection, rows)
            raise
        if not is_there:
            _restore(source, rows)
            return
        for row in rows:
            self._set_place(row, target)
        source.execute(_END, {"old": [r.old for r in rows], "staged": [r.staged for r in rows]})

    def _set_place(self, row: _Relocated, target: int) -> None:
        key = (row.account, row.region, row.name)
        home = chosen(*key, self._map.homes)
        with self._connected(home) as connection:
            if home == target:
                connection.execute(f"delete from skipmq.queue_place {_BY_KEY}", key)
            else:
                connection.execute(_PLACE, (*key, target))

    def _connected(self, number: int) -> psycopg.Connection[Any]:
        return maintenance.connect(self._urls[number], application_name=_NAME)


def _begin(
    connection: psycopg.Connection[Any],
    queues: Sequence[tuple[str, str, str]],
    new_ids: Sequence[int],
) -> None:
    """Take queues out of service; raise BusyError, psycopg.errors.LockNotAvailable."""
    connection.execute("set local lock_timeout = '10s'")
    for key in sorted(queues):
        # As create_queue does.
        connection.execute(
            "select pg_advisory_xact_lock(hashtext('skipmq queue'), hashtext(%s) & 1023)",
            (":".join(key),),
        )
    ids = [row[0] for key in queues for row in connection.execute(_ID, key)]
    for old in sorted(ids):
        # As purge_queue does: it waits for the sends of SQL users.
        connection.execute(
            "select pg_advisory_xact_lock(hashtext('skipmq.queue'), (%s & 1023)::integer)", (old,)
        )
    now = [row[0] for key in queues for row in connection.execute(_ID, key)]
    arns = [f"arn:aws:sqs:{region}:{account}:{name}" for account, region, name in queues]
    ties = connection.execute(_TIES, {"ids": ids}).fetchone()
    if now != ids or len(ids) < len(queues) or ties != (0,):
        raise BusyError("queues were created, deleted, purged or tied meanwhile: try again")
    if connection.execute(_TASKS, {"arns": arns}).fetchone() != (0,):
        names = ", ".join(name for _, _, name in queues)
        raise BusyError(f"a task moves messages of {names}: wait for its end, or cancel it")
    if connection.execute(_SUBSCRIBED, {"arns": arns}).fetchone() != (0,):
        raise BusyError("a queue that is subscribed to a topic cannot be moved: unsubscribe it")
    if connection.execute(_SCHEDULED, {"arns": arns}).fetchone() != (0,):
        raise BusyError("a queue that has schedules cannot be moved: delete them")
    for old, new in zip(ids, new_ids, strict=True):
        connection.execute(_BEGIN, {"old": old, "new": new})


def _await_transactions(connection: psycopg.Connection[Any], seconds: float) -> None:
    """Wait for the transactions that may not have seen the last commit; raise BusyError."""
    waiting = set(connection.execute(_OPEN))
    until = monotonic() + seconds
    while waiting:
        waiting &= set(connection.execute(_OPEN))
        if waiting and monotonic() > until:
            found = ", ".join(sorted({f"pid {pid}" if pid else text for pid, text in waiting}))
            raise BusyError(f"transactions were open for {seconds:.0f} s: end them ({found})")
        sleep(_PAUSE)


def _claim(
    target: psycopg.Connection[Any], rows: Sequence[_Relocated], *, is_cancelled: bool
) -> bool:
    """Insert the new generations; return whether they were not there yet."""
    parameters = _arrays(rows) | {"cancelled": is_cancelled}
    return target.execute(_GENERATIONS, parameters).rowcount > 0


def _arrays(rows: Sequence[_Relocated]) -> dict[str, Any]:
    return {"new": [row.new for row in rows], "queues": [row.queue for row in rows]}


def _restore(source: psycopg.Connection[Any], rows: Sequence[_Relocated]) -> None:
    source.execute(_RESTORE, ([row.old for row in rows],))


def _copy(
    source: psycopg.Connection[Any],
    target: psycopg.Connection[Any],
    rows: Sequence[_Relocated],
) -> bool:
    """Copy queues, in one transaction of the target; return whether they are there.

    They are not where the move was cancelled.
    """
    copying.check_hashes(source, target)
    copying.advance_sequence(source, target)
    with source.transaction(), target.transaction():
        source.execute("set transaction isolation level repeatable read read only")
        if not _claim(target, rows, is_cancelled=False):
            return target.execute(_IS_CANCELLED, _arrays(rows)).fetchone() == (False,)
        for row in rows:
            messages = copying.copy_queue(source, target, row.old, row.new)
            copying.copy_staged(source, target, row.staged)
            target.execute(_COUNT, (row.new, messages))
        target.execute(_QUEUES, _arrays(rows))
    return True
