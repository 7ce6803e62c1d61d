from typing import Any

import psycopg
import pytest

from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import Queue, number
from support.topics import Topic

PUBLISH = """
select message_id::text, sequence_number, cardinality(queue_ids), dead_lettered, dropped
from skipmq.publish_messages(%s, array[%s::uuid], array['x'], null, null, array[1],
  array[%s], array[%s], null, 'me', 'on')
"""
FIRST, SECOND = (f"00000000-0000-4000-8000-00000000000{n}" for n in (1, 2))


def publish(topic: Topic, id_: str, group: str | None = None, dedup: str | None = None) -> Any:
    return topic.connection.execute(PUBLISH, (topic.id, id_, group, dedup)).fetchone()


def test_message_goes_to_matching_queues_only(orders: Queue) -> None:
    topic = Topic(orders.connection)
    topic.subscribe("orders")
    topic.subscribe("others", filter='exists($."a" ? (@ == 1))')

    assert publish(topic, FIRST) == (FIRST, None, 1, 0, 0)
    assert topic.bodies() == ["x"]
    assert number(orders.connection, "select change from skipmq.queue_delta") == 1


def test_queue_that_is_gone_is_replaced_by_its_dead_letter_queue(orders: Queue) -> None:
    topic = Topic(orders.connection)
    topic.subscribe("gone")
    topic.subscribe(
        "lost",
        dead_letter_account="000000000000",
        dead_letter_region="us-east-1",
        dead_letter_name="orders",
    )

    assert publish(topic, FIRST) == (FIRST, None, 1, 1, 1)
    assert topic.bodies() == ["x"]


def test_duplicate_is_answered_as_the_first(fifo: FifoQueue) -> None:
    topic = Topic(fifo.connection, "news.fifo")
    topic.subscribe(number(fifo.connection, "select name from skipmq.queue"))

    first = publish(topic, FIRST, "g", "d")
    second = publish(topic, SECOND, "h", "d")

    assert first[2] == 1
    assert second == (FIRST, first[1], 0, 0, 0)
    assert topic.bodies() == ["x"]


def test_all_queues_get_a_message_or_none(orders: Queue) -> None:
    topic = Topic(orders.connection)
    topic.subscribe("orders")
    topic.subscribe("other")
    Queue(orders.connection, "other")
    orders.connection.execute(
        "create function no_other() returns trigger language plpgsql as $$ begin"
        " if (select count(*) from skipmq.message where queue_id <> 0) > 1 then"
        " raise exception 'full'; end if; return null; end $$;"
        "create trigger no_other after insert on skipmq.message execute function no_other()"
    )
    with pytest.raises(psycopg.Error, match="full"):
        publish(topic, FIRST)

    assert topic.bodies() == []


def test_more_subscribers_than_a_page_all_get_a_message(owner: Connection) -> None:
    topic = Topic(owner)
    for n in range(25):
        owner.execute("select skipmq.create_queue(%s)", (f"q{n}",))
        topic.subscribe(f"q{n}")

    owner.execute(
        "select from skipmq.publish_messages(%s, array[gen_random_uuid()], array['x'], null, null,"
        " array[1000000], null, null, null, 'me', 'on')",
        (topic.id,),
    )

    assert topic.bodies() == ["x"] * 25


@pytest.mark.parametrize("state", ["SQ014", "SQ015"])
def test_what_cannot_be_published_raises(orders: Queue, state: str) -> None:
    topic = Topic(orders.connection)
    topic.subscribe("orders")
    orders.connection.execute("select skipmq.replace_policy(%s, '', 'new')", (orders.id,))
    if state == "SQ014":
        topic.id = 5

    with pytest.raises(psycopg.Error) as caught:
        publish(topic, FIRST)

    assert caught.value.sqlstate == state
