import json

from support.postgres import Connection
from support.sql import number
from support.topics import SUBSCRIPTION, Topic


def test_endpoint_is_subscribed_once(owner: Connection) -> None:
    topic = Topic(owner)

    assert topic.subscribe("orders") == topic.subscribe("orders", raw=False)
    assert number(owner, "select raw from skipmq.subscription") is True


def test_nothing_is_subscribed_to_a_topic_that_is_gone(owner: Connection) -> None:
    given = json.dumps({**SUBSCRIPTION, "endpoint": "orders"})

    assert owner.execute("select * from skipmq.subscribe(5, %s)", (given,)).fetchall() == []


def test_pending_subscription_of_a_queue_is_made_by_its_own_account(owner: Connection) -> None:
    topic = Topic(owner)
    topic.subscribe("orders", confirmed=False, token="ab")

    topic.subscribe("orders", raw=False)
    row = "select confirmed, raw, token from skipmq.subscription"
    assert owner.execute(row).fetchall() == [(True, False, None)]
