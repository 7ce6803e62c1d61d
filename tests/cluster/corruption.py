"""A broker that breaks its promises: somebody changes its rows behind its back."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg

_SHOWN = """
with shown as (
  update skipmq.message set visible_at = clock_timestamp()
  where queue_id > 0 and receive_count > 0 and visible_at > clock_timestamp() and random() < 0.3
  returning queue_id, group_no
)
update skipmq.message_group g set available_at = clock_timestamp()
from (select distinct queue_id, group_no from shown) s
where g.queue_id = s.queue_id and g.group_no = s.group_no
"""
_LOST = """
with gone as (
  delete from skipmq.message
  where id in (
    select id from skipmq.message
    where queue_id > 0 and receive_count = 0 limit 1 for update skip locked)
  returning queue_id
)
insert into skipmq.queue_delta (at, queue_id, change, event)
select clock_timestamp(), queue_id, -1, 'deleted' from gone
"""
_TWINS = """
with twin as (
  insert into skipmq.message (id, visible_at, sent_at, enqueued_at, queue_id, message_id, body)
  select
    nextval('skipmq.message_id_seq'), clock_timestamp(), sent_at, enqueued_at, queue_id,
    gen_random_uuid(), body
  from skipmq.message where queue_id > 0 and group_no is null and random() < 0.2 {where} limit 1
  returning queue_id
)
insert into skipmq.queue_delta (at, queue_id, change, event)
select clock_timestamp(), queue_id, 1, 'sent' from twin
"""
_STATEMENTS = {
    "opened": _SHOWN,
    "lost": _LOST,
    "twins": _TWINS.format(where=""),
    # Of a queue that gets what is published to a topic.
    "divided": _TWINS.format(
        where="and queue_id in (select queue_id from skipmq.queue where name like '%mirror')"
    ),
}


@contextmanager
def corrupted(owner_url: str) -> Iterator[Counter[str]]:
    """Show messages that are in flight, remove some that wait, and double some, in the block.

    Gives how many groups it has opened so far, and how many messages it has removed and doubled, in
    all queues and in one of a topic.
    """
    stop = threading.Event()
    done = Counter[str]()

    def work() -> None:
        with psycopg.connect(owner_url, autocommit=True) as connection:
            while not stop.wait(0.05):
                for what, statement in _STATEMENTS.items():
                    # It keeps to no order of locks: the broker may have been first.
                    with suppress(psycopg.errors.DeadlockDetected):
                        done[what] += connection.execute(statement.encode()).rowcount

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield done
    finally:
        stop.set()
        thread.join()
