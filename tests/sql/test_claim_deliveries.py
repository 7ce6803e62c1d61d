from typing import Any

from support.postgres import Connection
from support.sql import advance, number
from support.topics import HTTP, Topic

CLAIM = "select body, attempt from skipmq.claim_deliveries(10, 2, 60, %s::uuid[])"


def claim(connection: Connection, *busy: str) -> list[Any]:
    return sorted(connection.execute(CLAIM, ([*busy],)).fetchall())


def test_claim_ends_and_leaves_room_for_other_subscriptions(owner: Connection) -> None:
    topic = Topic(owner)
    hanging = topic.subscribe("http://a", **HTTP)
    topic.subscribe("http://b", **HTTP, filter='exists($."b" ? (@ == 1))')
    for body in ("1", "2", "3"):
        topic.publish(body)
    topic.publish("b", p_attributes='{"b": {"DataType": "Number", "StringValue": "1"}}')

    assert claim(owner, hanging) == [("b", 1)]
    assert claim(owner) == [("1", 1), ("2", 1)]
    assert len(claim(owner)) == 2
    assert claim(owner) == []
    advance(owner, "61 seconds")
    assert [attempt for _, attempt in claim(owner)] == [2, 2, 2]


def test_throttled_address_gets_its_messages_in_turn(owner: Connection) -> None:
    topic = Topic(owner)
    policy = '{"http": {"defaultThrottlePolicy": {"maxReceivesPerSecond": 2}}}'
    topic.subscribe("http://a", **HTTP)
    change = "select skipmq.change_topic(%s, jsonb_build_object('DeliveryPolicy', %s::text))"
    owner.execute(change, (topic.id, policy))
    for body in ("1", "2"):
        topic.publish(body)

    assert claim(owner) == [("1", 1)]
    assert claim(owner) == []
    advance(owner, "0.5 seconds")
    assert claim(owner) == [("2", 1)]


def test_nothing_is_left_of_a_subscription_that_ended(owner: Connection) -> None:
    topic = Topic(owner)
    topic.subscribe("http://a", **HTTP)
    topic.publish("x")
    owner.execute("select skipmq.delete_topic('news', '000000000000', 'us-east-1')")

    assert claim(owner) == []
    assert number(owner, "select count(*) from skipmq.http_delivery") == 0
