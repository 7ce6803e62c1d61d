from support.postgres import Connection
from support.sql import number
from support.topics import HTTP, Topic

CHANGE = "select skipmq.change_subscription(%s, %s, %s)"


def test_columns_are_changed_and_others_stay(owner: Connection) -> None:
    topic = Topic(owner)
    id_ = topic.subscribe("orders", confirmed=False)

    assert number(owner, CHANGE, topic.id, id_, '{"confirmed": true}') is True
    assert number(owner, CHANGE, topic.id, id_, '{"filter": "$.a == 1"}') is True
    found = owner.execute("select confirmed, raw, filter::text from skipmq.subscription").fetchall()
    assert found == [(True, True, '($."a" == 1)')]


def test_deletion_is_counted_once(owner: Connection) -> None:
    topic = Topic(owner)
    id_ = topic.subscribe("orders")

    assert number(owner, CHANGE, topic.id, id_, None) is True
    assert number(owner, CHANGE, topic.id, id_, None) is False
    assert number(owner, CHANGE, topic.id, id_, "{}") is False
    assert number(owner, "select subscriptions_deleted from skipmq.topic") == 1


def test_address_that_its_link_ended_gets_nothing_but_what_restores_it(owner: Connection) -> None:
    topic = Topic(owner)
    id_ = topic.subscribe("http://a", **HTTP)
    topic.publish("x")

    assert number(owner, CHANGE, topic.id, id_, '{"confirmed": false, "ended": true}') is True
    kinds = "select string_agg(type, ',') from skipmq.http_delivery"
    assert number(owner, kinds) == "UnsubscribeConfirmation"
