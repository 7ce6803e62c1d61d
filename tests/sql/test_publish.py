from uuid import UUID

import psycopg
import pytest

import skipmq
from skipmq.client import ClientError
from support.applications import Applications
from support.sql import Queue
from support.topics import Topic


def test_publish_is_part_of_the_transaction(orders: Queue) -> None:
    topic = Topic(orders.connection)
    topic.subscribe("orders")
    with orders.connection.transaction(force_rollback=True):
        topic.publish("rolled back")

    topic.publish("kept", p_attributes='{"a": {"DataType": "String", "StringValue": "b"}}')

    assert topic.bodies() == ["kept"]


def test_topic_of_the_client_publishes_in_the_transaction(orders: Queue) -> None:
    topic = Topic(orders.connection)
    topic.subscribe("orders")
    news = skipmq.Topic("news", dict)
    with orders.connection.transaction(force_rollback=True):
        news.publish({"n": 1}, using=orders.connection)
    with orders.connection.transaction():
        id_ = news.publish({"n": 2}, using=orders.connection, attributes={"a": 1}, subject="s")

    assert UUID(id_)
    assert topic.bodies() == ['{"n":2}']
    with pytest.raises(ClientError, match="publish to a URL with an SDK's SNS client"):
        news.publish({}, using="http://localhost")
    with (
        pytest.raises(ClientError, match="topic olds does not exist"),
        orders.connection.transaction(),
    ):
        skipmq.Topic("olds").publish("x", using=orders.connection)


def test_invalid_message_is_refused(orders: Queue) -> None:
    topic = Topic(orders.connection)

    for state, given in (("SQ011", {"body": ""}), ("SQ008", {"body": "x" * 262_145})):
        with pytest.raises(psycopg.Error) as caught:
            topic.publish(**given)
        assert caught.value.sqlstate == state
    topic.name = "nowhere"
    with pytest.raises(psycopg.Error, match="topic nowhere does not exist"):
        topic.publish()


def test_application_publishes_with_a_grant_to_send(
    orders: Queue, applications: Applications
) -> None:
    topic = Topic(orders.connection)
    topic.subscribe("orders")
    topic.connection = applications.sender("shop", "news")
    topic.publish()
    topic.name = "olds"

    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        topic.publish()
    topic.connection = orders.connection
    assert topic.bodies() == ["x"]
