import psycopg
import pytest
from psycopg.types.json import Json

from support.postgres import Connection
from support.sql import Queue, advance, number


def test_send_message_is_a_transactional_outbox(owner: Connection, node: Connection) -> None:
    queue = Queue(owner)
    owner.execute("create table public.bought (what text)")

    with owner.transaction():
        owner.execute("insert into public.bought values ('tea')")
        owner.execute("select skipmq.send_message('orders', 'tea')")
        seen_before = Queue(node).bodies()

    assert seen_before == []
    assert queue.bodies() == ["tea"]


def test_send_message_gives_the_message_id_that_is_received(orders: Queue) -> None:
    message_id = number(orders.connection, "select skipmq.send_message('orders', 'x')")

    assert orders.receive()[0]["message_id"] == message_id


def test_send_message_names_the_sending_role(node: Connection) -> None:
    queue = Queue(node)

    node.execute("select skipmq.send_message('orders', 'x')")

    assert queue.receive()[0]["sender"] == "skipmq_node"


def test_send_message_of_a_group_is_that_tenants(orders: Queue) -> None:
    orders.connection.execute("select skipmq.send_message('orders', 'x', p_group_id => 'ann')")

    assert orders.receive()[0]["group_id"] == "ann"


@pytest.mark.parametrize(
    ("call", "sqlstate"),
    [
        ("skipmq.send_message('nowhere', 'x')", "SQ001"),
        ("skipmq.send_message('orders', '')", "SQ011"),
        ("skipmq.send_message('orders', null)", "SQ011"),
        ("skipmq.send_message('orders', 'x', p_delay_seconds => 901)", "SQ008"),
        ("skipmq.send_message('orders', repeat('x', 2000))", "SQ008"),
        ("skipmq.send_message('orders', 'x', p_priority => 10)", "SQ008"),
        ("skipmq.send_message('orders', 'x', p_priority => -1)", "SQ008"),
        ("skipmq.send_message('orders', chr(1))", "SQ009"),
        ("skipmq.send_message('orders', 'a' || chr(65534))", "SQ009"),
        ("skipmq.send_message('orders', 'x', '{\"a\": 1}')", "SQ012"),
        ("skipmq.send_message('orders', 'x', '[]')", "SQ012"),
        ("skipmq.send_message('orders', 'x', '{\"a\": []}')", "SQ012"),
        ("skipmq.send_message('orders', 'x', '{\"a\": {\"DataType\": \"String\"}}')", "SQ008"),
        ("skipmq.send_message('orders', 'x', '{\"a\": {\"StringValue\": \"x\"}}')", "SQ011"),
    ],
)
def test_send_message_with_bad_input_says_what(owner: Connection, call: str, sqlstate: str) -> None:
    queue = Queue(owner, MaximumMessageSize=1999)

    with pytest.raises(psycopg.Error) as caught:
        owner.execute(f"select {call}")

    assert caught.value.sqlstate == sqlstate
    assert queue.counts() == (0, 0, 0)


def test_send_message_stores_attributes_and_odd_but_allowed_characters(orders: Queue) -> None:
    body = "\t\n\r \ud7ff\ue000\ufffd\U0010ffff"
    attributes = '{"a": {"DataType": "String", "StringValue": "x"}}'

    orders.connection.execute(
        "select skipmq.send_message('orders', %s, %s::jsonb)", (body, attributes)
    )

    (row,) = orders.receive()
    assert row["body"] == body
    assert row["attributes"] == '{"a":{"StringValue":"x","DataType":"String"}}'


def test_message_is_delivered_at_a_time_after_the_retention_period(owner: Connection) -> None:
    queue = Queue(owner, MaximumDelaySeconds=90 * 86_400, MessageRetentionPeriod=60)
    later = (
        "select skipmq.send_message('orders', 'x', p_deliver_at => skipmq.clock() + %s::interval)"
    )

    owner.execute(later, ("60 days",))

    assert queue.counts() == (0, 0, 1)
    advance(owner, "60 days -5 s")
    assert queue.bodies() == []
    advance(owner, "60 days 30 s")
    assert queue.bodies(timeout=0) == ["x"]
    advance(owner, "60 days 70 s")
    assert (queue.bodies(), queue.counts()) == ([], (0, 0, 0))


@pytest.mark.parametrize("at", ["91 days", "infinity"])
def test_time_beyond_the_longest_delay_is_refused(owner: Connection, at: str) -> None:
    Queue(owner, MaximumDelaySeconds=90 * 86_400)
    time = "'infinity'" if at == "infinity" else f"skipmq.clock() + interval '{at}'"

    with pytest.raises(psycopg.Error, match="DelaySeconds must be >= 0 and <= 7776000"):
        owner.execute(f"select skipmq.send_message('orders', 'x', p_deliver_at => {time})")


@pytest.mark.parametrize("priority", ["10", "-1", "1.0"])
def test_priority_that_cannot_be_is_refused_where_it_would_count(
    orders: Queue, priority: str
) -> None:
    attributes = Json({"SkipMQ.Priority": {"DataType": "Number", "StringValue": priority}})
    statement = "select skipmq.send_message('orders', 'x', %s::jsonb)"
    orders.connection.execute(statement, (attributes,))
    orders.set(PriorityMode="strict")

    with pytest.raises(psycopg.Error, match=f"with value '{priority}' is invalid") as caught:
        orders.connection.execute(statement, (attributes,))

    assert caught.value.sqlstate == "SQ008"
    assert orders.bodies() == ["x"]
