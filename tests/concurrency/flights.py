"""What the database saw of messages in flight, in the order in which it happened there.

A trigger writes down each claim, change of visibility and delete: what its transaction rolls back
is gone from there too.
"""

import time
from collections.abc import Iterator

import psycopg

from cluster.history import Op

_WATCH = """
create table public.noted (
  number bigint generated always as identity primary key, begun timestamptz not null,
  at timestamptz not null, queue_id bigint not null, queue text, message_id uuid not null,
  group_id text, until timestamptz, is_claim boolean not null);
create function public.note() returns trigger language plpgsql security definer as $$
declare
  v_stays boolean := tg_op = 'UPDATE' and new.queue_id = old.queue_id;
  v_now timestamptz := skipmq.clock();
begin
  insert into public.noted (begun, at, queue_id, queue, message_id, group_id, until, is_claim)
  select
    case when v_stays and old.first_received_at is null and new.receive_count > old.receive_count
      then new.first_received_at else now() + (v_now - clock_timestamp()) end,
    v_now, old.queue_id,
    (select q.name from skipmq.queue q where q.queue_id = old.queue_id),
    old.message_id, old.group_id, case when v_stays then new.visible_at end,
    coalesce(v_stays and new.receive_count > old.receive_count, false);
  return null;
end $$;
create trigger noted after update of visible_at or delete on skipmq.message
  for each row when (old.queue_id > 0) execute function public.note();
"""
_NOTED = """
select
  n.queue, n.queue_id, n.message_id::text, n.group_id, n.is_claim,
  extract(epoch from n.begun)::float8, extract(epoch from n.at)::float8,
  greatest(extract(epoch from n.until - n.at), 0)::float8
from public.noted n where n.queue = any (%s) order by n.number
"""


def watch(database: str) -> None:
    """Have a database write down what is in flight from now on."""
    with psycopg.connect(database, autocommit=True) as owner:
        owner.execute(_WATCH)


def flights(database: str, queues: list[str]) -> Iterator[Op]:
    """Give what was written down of queues, at times of the monotonic clock.

    The receive count is that of claims, the sequence number that of the queue's generation, and
    the visibility how long the message was hidden from then on.
    """
    with psycopg.connect(database, autocommit=True) as owner:
        ((now,),) = owner.execute("select extract(epoch from clock_timestamp())::float8").fetchall()
        since = now - time.monotonic()
        rows = owner.execute(_NOTED, (queues,)).fetchall()
    for place, (queue, generation, id_, group, is_claim, begun, at, hidden) in enumerate(rows):
        yield Op(
            "flight",
            "ok",
            "database",
            begun - since,
            at - since,
            queue,
            group=group or "",
            message_id=id_,
            sequence_number=generation,
            receive_count=int(is_claim),
            visibility=hidden,
            place=place,
        )
