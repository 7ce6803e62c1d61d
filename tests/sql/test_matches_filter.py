import json
from typing import Any

import pytest

from support.postgres import Connection
from support.sql import number

MATCHES = "select skipmq.matches_filter(%s, %s, 3, '2026-01-02', %s)"
BODY = json.dumps({
    "order": 7, "paid": False, "note": None, "lines": [{"sku": "S1", "n": 2}, {"sku": "S2", "n": 9}]
})  # fmt: skip


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("$.order == 7", True),
        ("$.order == 8", False),
        ("$.order > 8", False),
        ("$.lines", True),
        ("$.paid", False),
        ("$.note", False),
        ("$.absent", False),
        ('$.lines[*] ? (@.sku == "S1" && @.n > 1)', True),
        ('$.lines[*] ? (@.sku == "S1" && @.n > 2)', False),
        ('$.**.sku == "S2"', True),
        ('$."order" == 7', True),
        ('$.lines[*].sku starts with "S"', True),
        ("$.order.deeper", False),
    ],
)
def test_path_selects_a_value_that_is_not_false(
    owner: Connection, path: str, expected: bool
) -> None:
    number(owner, "select skipmq.check_filter(%s)::text", json.dumps({"path": path}))

    assert number(owner, MATCHES, BODY, None, json.dumps({"path": path})) is expected


@pytest.mark.parametrize(
    "body",
    ["", "plain", "{broken", "7", '"text"', '{"a": "\\u0000"}', '{"a": 1e999999}', "[" * 9_999],
    ids=lambda body: body[:9],
)
def test_body_that_is_no_json_matches_no_path(owner: Connection, body: str) -> None:
    assert number(owner, MATCHES, body, None, json.dumps({"path": "$.a"})) is False


@pytest.mark.parametrize(
    ("filter_", "expected"),
    [
        ({}, True),
        ({"receives": 3}, True),
        ({"receives": 4}, False),
        ({"sent_before": "2026-01-03"}, True),
        ({"sent_before": "2026-01-02"}, False),
        ({"failure": "Timeout # s"}, True),
        ({"failure": "Timeout"}, False),
        ({"failure": ""}, False),
        ({"failure": "Timeout # s", "receives": 4}, False),
    ],
    ids=str,
)
def test_members_must_all_match(owner: Connection, filter_: dict[str, Any], expected: bool) -> None:
    reason = {"FailureReason": {"DataType": "String", "StringValue": "Timeout 30 s"}}

    assert number(owner, MATCHES, BODY, json.dumps(reason), json.dumps(filter_)) is expected


def test_message_without_a_failure_matches_the_empty_kind(owner: Connection) -> None:
    assert number(owner, MATCHES, BODY, None, '{"failure": ""}') is True
