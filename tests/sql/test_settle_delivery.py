from support.sql import Queue, advance, number
from support.topics import HTTP, Topic

CLAIM = "select delivery_id, attempt from skipmq.claim_deliveries(10, 10, 60, '{}')"
SETTLE = "select skipmq.settle_delivery(%s, %s, %s, %s)"
DEAD_LETTERS = {
    "dead_letter_account": "000000000000",
    "dead_letter_region": "us-east-1",
    "dead_letter_name": "orders",
}


def test_attempt_is_deferred_then_dead_lettered_once(orders: Queue) -> None:
    connection, topic = orders.connection, Topic(orders.connection)
    topic.subscribe("http://a", **HTTP, **DEAD_LETTERS)
    topic.publish("x")
    connection.execute("listen skipmq")
    ((id_, _),) = connection.execute(CLAIM).fetchall()

    assert number(connection, SETTLE, id_, 1, "false", 20) == "deferred"
    assert connection.execute(CLAIM).fetchall() == []
    advance(connection, "21 seconds")
    assert connection.execute(CLAIM).fetchall() == [(id_, 2)]
    assert number(connection, SETTLE, id_, 1, "true", None) is None
    assert number(connection, SETTLE, id_, 2, "false", None) == "dead-lettered"
    assert number(connection, SETTLE, id_, 2, "false", None) is None
    assert topic.bodies() == ["x"]
    (woken,) = connection.notifies(timeout=30, stop_after=1)
    assert woken.payload == "sql sent arn:aws:sqs:us-east-1:000000000000:orders"


def test_message_is_dropped_without_dead_letter_queue(orders: Queue) -> None:
    connection, topic = orders.connection, Topic(orders.connection)
    topic.subscribe("http://a", **HTTP)
    topic.publish("x")
    topic.publish("y")
    (first, _), (second, _) = connection.execute(CLAIM).fetchall()

    assert number(connection, SETTLE, first, 1, "false", None) == "dropped"
    assert number(connection, SETTLE, second, 1, "true", None) == "delivered"
    assert number(connection, "select count(*) from skipmq.http_delivery") == 0
