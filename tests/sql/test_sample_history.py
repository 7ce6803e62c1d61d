from typing import Any

import pytest

from support.postgres import Connection
from support.sql import Queue, number

# Rows that were settled one by one in the last two hours, a second kind of queue among them.
FILL = """
  insert into skipmq.history (settled_at, sent_at, xid, id, queue_id, receive_count, body_bytes,
    attribute_bytes, message_id, outcome)
  select t, t - interval '1 second', 1, n, case when n %% 2 = 0 then %s else 0 end, 1, 1, 0,
    gen_random_uuid(), 'deleted'
  from generate_series(1, 40000) n
  cross join lateral (select skipmq.clock() - interval '2 hours' * (40000 - n) / 40000 as t) x
"""
SAMPLE = (
    "select settled_at, part from skipmq.sample_history"
    "(%s, skipmq.clock() - %s::interval, skipmq.clock(), %s)"
)
BLOCKS = "select max((ctid::text::point)[0]) from skipmq.history"


def sample(queue: Queue, since: str, runs: int = 128) -> list[tuple[Any, ...]]:
    return queue.connection.execute(SAMPLE, (queue.id, since, runs)).fetchall()


@pytest.fixture
def filled(orders: Queue) -> Queue:
    orders.connection.execute(FILL, (orders.id,))
    return orders


def exact(connection: Connection, queue: Queue, since: str) -> int:
    return int(
        number(
            connection,
            "select count(*) from skipmq.history where queue_id = %s"
            " and settled_at >= skipmq.clock() - %s::interval",
            queue.id,
            since,
        )
    )


def test_little_is_given_whole(filled: Queue) -> None:
    owner = filled.connection
    owner.execute("begin")
    owner.execute("select set_config('skipmq.clock_offset', '0', true)")
    for since in ("30 minutes", "3 hours"):
        found = sample(filled, since)
        assert abs(len(found) - exact(owner, filled, since)) <= 2
        assert {part for _, part in found} == {1}
    owner.execute("rollback")
    assert sample(filled, "0 seconds") == []


def test_much_is_sampled_evenly_and_costs_no_more(filled: Queue) -> None:
    owner = filled.connection
    owner.execute("select pg_stat_force_next_flush()")
    found = sample(filled, "3 hours", runs=4)

    (part,) = {part for _, part in found}
    assert 0 < part < 0.2
    assert len(found) == pytest.approx(20_000 * part, rel=0.3)
    first, last = min(at for at, _ in found), max(at for at, _ in found)
    assert (last - first).total_seconds() > 4_000
    plan = "explain (analyze, buffers, format json) " + SAMPLE
    (tree,) = number(owner, plan, filled.id, "3 hours", 4)
    assert tree["Plan"]["Shared Hit Blocks"] + tree["Plan"]["Shared Read Blocks"] < 4 * 8 + 250
    assert number(owner, BLOCKS) > 400
