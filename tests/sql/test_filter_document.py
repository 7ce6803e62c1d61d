import json

import pytest

from support.postgres import Connection
from support.sql import number

ATTRIBUTES = {
    "s": {"DataType": "String", "StringValue": "x"},
    "n": {"DataType": "Number.int", "StringValue": "1.50"},
    "a": {"DataType": "String.Array", "StringValue": '["x", 2]'},
    "w": {"DataType": "String.Array", "StringValue": "["},
    "b": {"DataType": "Binary", "BinaryValue": "eA=="},
}


def test_document_of_attributes_has_their_values(owner: Connection) -> None:
    found = number(owner, "select skipmq.filter_document(null, %s)", json.dumps(ATTRIBUTES))

    assert found == {"s": "x", "n": 1.5, "a": ["x", 2], "w": "["}


@pytest.mark.parametrize("body", ["", "x", "[1]", '"x"', '{"a": "\\u0000"}', "[" * 100_000])
def test_body_that_is_no_object_is_no_document(owner: Connection, body: str) -> None:
    assert number(owner, "select skipmq.filter_document(%s, null)", body) is None
    assert number(owner, "select skipmq.filter_document('{\"a\": 1}', null)") == {"a": 1}
