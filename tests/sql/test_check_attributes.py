import json
from typing import Any

import psycopg
import pytest

from support.postgres import Connection

CHECK = "select stored, bytes from skipmq.check_attributes(%s::text[])"
RED = {"DataType": "String", "StringValue": "red"}
FORM = "Message attributes are"


def check(connection: Connection, *attributes: Any) -> Any:
    return connection.execute(CHECK, ([json.dumps(each) for each in attributes],)).fetchone()


@pytest.mark.parametrize(
    ("attributes", "stored", "size"),
    [
        (None, None, 0),
        ({}, None, 0),
        ({"ab": RED}, '{"ab":{"StringValue":"red","DataType":"String"}}', 11),
        (
            {"a": {"DataType": "Binary", "BinaryValue": "AP8="}},
            '{"a":{"BinaryValue":"AP8=","DataType":"Binary"}}',
            9,
        ),
        (
            {"a": {**RED, "BinaryValue": None, "StringListValues": None, "Other": 1}},
            '{"a":{"StringValue":"red","DataType":"String"}}',
            10,
        ),
        (
            {"ß": {"DataType": "Number.x", "StringValue": "-1.5e3"}},
            '{"ß":{"StringValue":"-1.5e3","DataType":"Number.x"}}',
            16,
        ),
        (
            {"a": {"DataType": "String", "StringValue": '"\\\n'}},
            r'{"a":{"StringValue":"\"\\\n","DataType":"String"}}',
            10,
        ),
    ],
)
def test_attributes_are_stored_as_the_nodes_store_them(
    owner: Connection, attributes: Any, stored: str | None, size: int
) -> None:
    assert check(owner, attributes, {"b": RED}, attributes) == (
        [stored, '{"b":{"StringValue":"red","DataType":"String"}}', stored],
        [size, 10, size],
    )


def test_ten_attributes_are_accepted(owner: Connection) -> None:
    stored, sizes = check(owner, {str(n): RED for n in range(10)})

    assert (json.loads(stored[0]), sizes) == ({str(n): RED for n in range(10)}, [100])


@pytest.mark.parametrize(
    ("attributes", "sqlstate", "text"),
    [
        ([], "SQ012", FORM),
        ("a", "SQ012", FORM),
        ({"a": None}, "SQ012", FORM),
        ({"a": "red"}, "SQ012", FORM),
        ({"a": {"DataType": 1, "StringValue": "x"}}, "SQ012", FORM),
        ({"a": {"DataType": "String", "StringValue": 1}}, "SQ012", FORM),
        ({"a": {"DataType": "Binary", "BinaryValue": []}}, "SQ012", FORM),
        ({"a": {"DataType": "Binary", "BinaryValue": "YQ="}}, "SQ012", "base64"),
        ({"a": {"DataType": "Binary", "BinaryValue": "YW Jj"}}, "SQ012", "base64"),
        ({"a": {"StringValue": "x"}}, "SQ011", "DataType"),
        ({"a": {**RED, "StringListValues": []}}, "SQ007", "list values"),
        ({"a": {**RED, "BinaryListValues": ["YQ=="]}}, "SQ007", "list values"),
        ({"a b": RED}, "SQ008", "name 'a b' is invalid"),
        ({"x" * 257: RED}, "SQ008", "'x{197}\\.\\.\\.' is invalid"),
        ({"a": {**RED, "DataType": ""}}, "SQ008", "non-empty message attribute type"),
        ({"a": {**RED, "DataType": "string"}}, "SQ008", "invalid message attribute type"),
        ({"a": {**RED, "DataType": "String." + "x" * 250}}, "SQ008", "at most 256"),
        ({"a": {**RED, "DataType": "String.\x01"}}, "SQ008", "Invalid characters"),
        ({"a": {**RED, "StringValue": "\uffff"}}, "SQ008", "Invalid characters"),
        ({"a": {**RED, "StringValue": ""}}, "SQ008", "non-empty value of type 'String'"),
        ({"a": {"DataType": "String"}}, "SQ008", "non-empty value of type 'String'"),
        ({"a": {**RED, "DataType": "Binary.x"}}, "SQ008", "non-empty value of type 'Binary'"),
        ({"a": {**RED, "BinaryValue": "YQ=="}}, "SQ008", "non-empty value of type 'String'"),
        ({"a": {"DataType": "Binary", "BinaryValue": ""}}, "SQ008", "type 'Binary'"),
        ({"a": {**RED, "DataType": "Number"}}, "SQ008", "Can't cast"),
        ({str(n): RED for n in range(11)}, "SQ008", r"attributes \[11\] exceeds"),
    ],
)
def test_attributes_that_sqs_refuses_are_refused(
    owner: Connection, attributes: Any, sqlstate: str, text: str
) -> None:
    with pytest.raises(psycopg.Error, match=text) as caught:
        check(owner, {"good": RED}, attributes, None)

    assert caught.value.sqlstate == sqlstate
