from datetime import datetime, timedelta

import pytest

from support.sql import Queue, number

# At noon, so that all is in one day: rows that were settled one by one in the last two hours, those
# of another queue among them.
NOON = "select date_trunc('day', skipmq.clock(), 'UTC') + interval '12 hours'"
FILL = """
  insert into skipmq.history (settled_at, sent_at, xid, id, queue_id, receive_count, body_bytes,
    attribute_bytes, message_id, outcome)
  select t, t - interval '1 second', 1, n, case when n %% 2 = 0 then %s else 0 end, 1, 1, 0,
    gen_random_uuid(), 'deleted'
  from generate_series(1, 40000) n
  cross join lateral (select %s - interval '2 hours' * (40000 - n) / 40000 as t) x
"""
SAMPLE = "select settled_at, part from skipmq.sample_history(%s, %s, %s, %s)"
BLOCKS = "select max((ctid::text::point)[0]) from skipmq.history"


@pytest.fixture
def noon(orders: Queue) -> datetime:
    """Give when the last row was settled, after all have been written."""
    found: datetime = number(orders.connection, NOON)
    orders.connection.execute(FILL, (orders.id, found))
    return found


def test_little_is_given_whole(orders: Queue, noon: datetime) -> None:
    for minutes, rows in ((30, 5_001), (180, 20_000)):
        since = noon - timedelta(minutes=minutes)
        found = orders.connection.execute(SAMPLE, (orders.id, since, noon, 128)).fetchall()
        assert len(found) == rows
        assert {part for _, part in found} == {1}
        assert min(at for at, _ in found) >= since
    later = noon + timedelta(seconds=1)
    assert orders.connection.execute(SAMPLE, (orders.id, later, later, 128)).fetchall() == []


def test_much_is_sampled_evenly_and_costs_no_more(orders: Queue, noon: datetime) -> None:
    owner = orders.connection
    asked = (orders.id, noon - timedelta(hours=3), noon, 4)
    found = owner.execute(SAMPLE, asked).fetchall()

    (part,) = {part for _, part in found}
    assert 0 < part < 0.2
    assert len(found) == pytest.approx(20_000 * part, rel=0.3)
    first, last = min(at for at, _ in found), max(at for at, _ in found)
    assert (last - first).total_seconds() > 4_000
    (tree,) = number(owner, "explain (analyze, buffers, format json) " + SAMPLE, *asked)
    assert tree["Plan"]["Shared Hit Blocks"] + tree["Plan"]["Shared Read Blocks"] < 4 * 8 + 250
    assert number(owner, BLOCKS) > 400
