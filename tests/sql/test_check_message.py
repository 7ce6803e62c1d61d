import psycopg
import pytest

from support.sql import Queue, number

ATTRIBUTES = '{"a": {"DataType": "String", "StringValue": "%s"}}'


@pytest.mark.parametrize(
    ("body", "attributes", "sqlstate"),
    [
        ("", None, "SQ008"),
        (None, None, "SQ008"),
        ("x" * 1025, None, "SQ008"),
        ("x", ATTRIBUTES % ("y" * 1024), "SQ008"),
        ("x", "[]", "SQ008"),
        ("x", '{"a": 1}', "SQ008"),
        ("x\x01", None, "SQ009"),
    ],
)
@pytest.mark.parametrize("function", ["send_message('orders', %s, %s::jsonb)"])
def test_message_that_sqs_refuses_is_refused(
    orders: Queue, function: str, body: str | None, attributes: str | None, sqlstate: str
) -> None:
    orders.connection.execute("update skipmq.queue set maximum_message_size = 1024")

    with pytest.raises(psycopg.Error) as caught:
        number(orders.connection, f"select skipmq.{function}", body, attributes)

    assert caught.value.sqlstate == sqlstate
