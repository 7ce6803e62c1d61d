import psycopg
import pytest

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
