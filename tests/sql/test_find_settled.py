from datetime import timedelta
from typing import Any
from uuid import uuid4

from support.sql import Queue, number, redrive_policy

FIND = (
    "select name, outcome, settled_at, receives, node, place"
    " from skipmq.find_settled(%s, %s::timestamptz, %s, %s)"
)
# Rows that were settled in the last two hours before noon; the partition of the day is this one's.
NOON = "select date_trunc('day', skipmq.clock(), 'UTC') + interval '12 hours'"
FILL = """
  insert into skipmq.history (settled_at, sent_at, xid, id, queue_id, receive_count, body_bytes,
    attribute_bytes, message_id, outcome)
  select t, t - interval '1 second', 1, n, %s, 1, 1, 0,
    case n when 20000 then %s::uuid else gen_random_uuid() end, 'deleted'
  from generate_series(1, 40000) n
  cross join lateral (select %s - interval '2 hours' * (40000 - n) / 40000 as t) x
"""
BLOCKS = "select max((ctid::text::point)[0]) from skipmq.history"


def find(
    queue: Queue, message: str, since: Any = None, place: Any = None, most: int = 8_192
) -> Any:
    return queue.connection.execute(FIND, (message, since, place, most)).fetchall()


def test_all_queues_of_a_message_are_found_newest_first(orders: Queue) -> None:
    owner = orders.connection
    dead = Queue(owner, "dead")
    source = Queue(owner, "source", RedrivePolicy=redrive_policy())
    (message,) = source.send("a")
    source.receive(timeout=0)
    source.receive()
    owner.execute("set application_name to 'someone'")
    dead.delete(*dead.receive())

    *found, searched = find(orders, message)

    assert [row[:2] for row in found] == [("dead", "deleted"), ("source", "dead-lettered")]
    assert (found[0][3], found[0][4]) == (2, "someone")
    assert (searched[1], searched[5]) == (None, None)
    place = found[0][5]
    assert [row[1] for row in find(orders, message, place=place, most=1)][:1] == ["deleted"]
    *none, _ = find(orders, str(uuid4()))
    assert none == []


def test_search_is_bounded_and_goes_on_where_it_ended(orders: Queue) -> None:
    owner, message = orders.connection, str(uuid4())
    noon = number(owner, NOON)
    owner.execute(FILL, (orders.id, message, noon))
    assert number(owner, BLOCKS) > 400

    pages, place, seen = 0, None, []
    while pages == 0 or place:
        *found, searched = find(orders, message, place=place, most=200)
        seen += [row[1] for row in found]
        assert searched[2] < noon
        place, pages = searched[5], pages + 1
        assert pages < 20
        if seen:
            break

    # What was settled before this one was sent is not read.
    assert (seen, pages, place) == (["deleted"], 2, None)
    assert abs(noon - timedelta(hours=1) - found[0][2]) < timedelta(seconds=1)
    (tree,) = number(
        owner, "explain (analyze, buffers, format json) " + FIND, str(uuid4()), None, None, 200
    )
    assert tree["Plan"]["Shared Hit Blocks"] + tree["Plan"]["Shared Read Blocks"] < 400


def test_nothing_older_than_the_send_is_read(orders: Queue) -> None:
    owner = orders.connection
    noon = number(owner, NOON)
    owner.execute(FILL, (orders.id, str(uuid4()), noon))

    (searched,) = find(orders, str(uuid4()), noon - timedelta(minutes=10), most=8_192)
    (later,) = find(orders, str(uuid4()), noon + timedelta(days=3))

    assert searched[5] is None
    assert timedelta(minutes=10) < noon - searched[2] < timedelta(minutes=60)
    assert later[5] is None
