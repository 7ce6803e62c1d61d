import json
from typing import Any

import pytest

from support.postgres import Connection
from support.sql import number

KIND = "select skipmq.failure_kind(%s)"


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("KeyError: 'sku'", "KeyError: 'sku'"),
        ("Timeout after 31.5 s", "Timeout after #.# s"),
        ("no order 3f2b8c1e-0d4a-4c5e-9b1a-2f3e4d5c6b7a", "no order #"),
        ("ValueError: bad\n  Traceback 7", "ValueError: bad"),
        ("x" * 500, "x" * 100),
        ("", None),
    ],
)
def test_kind_is_the_first_line_without_numbers(
    owner: Connection, reason: str, kind: str | None
) -> None:
    attributes = {"FailureReason": {"DataType": "String", "StringValue": reason}}

    assert number(owner, KIND, json.dumps(attributes)) == kind


@pytest.mark.parametrize(
    "attributes",
    [None, "{}", '{"a": {"DataType": "String", "StringValue": "\\"FailureReason\\""}}'],
)
def test_message_without_a_reason_has_no_kind(owner: Connection, attributes: Any) -> None:
    assert number(owner, KIND, attributes) is None
