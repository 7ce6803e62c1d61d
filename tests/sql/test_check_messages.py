import json

import psycopg
import pytest

from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import Queue, number

CHECK = (
    "select skipmq.check_messages(%s, %s::text[], %s::text[], %s::int[], %s::text[], %s::text[],"
    " %s::text[])"
)
COLOUR = json.dumps({"colour": {"DataType": "String", "StringValue": "red"}})


def test_attributes_come_back_as_the_nodes_store_them(orders: Queue) -> None:
    stored = number(
        orders.connection, CHECK, orders.id, ["a", "b"], [None, COLOUR], None, None, None, None
    )

    assert stored == [None, '{"colour":{"StringValue":"red","DataType":"String"}}']


def test_messages_without_attributes_have_none(orders: Queue) -> None:
    arguments = (orders.id, ["a", "b"], [None, None], [1, None], ["g", None], None, ["t", None])

    assert number(orders.connection, CHECK, *arguments) is None


@pytest.mark.parametrize(
    ("arguments", "sqlstate"),
    [
        ((["a", ""], None, None, None, None, None), "SQ011"),
        ((["a", "b"], [None, "{}", COLOUR.replace("red", "")], None, None, None, None), "SQ008"),
        ((["a", "b"], None, [0, 901], None, None, None), "SQ008"),
        ((["a", "b"], None, None, ["g", " "], None, None), "SQ008"),
        ((["a", "b"], None, None, None, None, ["t", ""]), "SQ008"),
        # Together with its attributes.
        ((["x" * 1000], [COLOUR.replace("red", "r" * 13)], None, None, None, None), "SQ008"),
    ],
)
def test_one_that_sqs_refuses_is_enough(
    owner: Connection, arguments: tuple[list[object] | None, ...], sqlstate: str
) -> None:
    orders = Queue(owner, MaximumMessageSize=1024)

    with pytest.raises(psycopg.Error) as caught:
        number(owner, CHECK, orders.id, *arguments)

    assert caught.value.sqlstate == sqlstate


def test_message_of_a_fifo_queue_needs_its_ids(fifo: FifoQueue) -> None:
    with pytest.raises(psycopg.Error, match="MessageGroupId"):
        number(fifo.connection, CHECK, fifo.id, ["a"], None, None, None, ["id"], None)
