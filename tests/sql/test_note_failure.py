import json

import psycopg
import pytest

from support.postgres import Connection
from support.sql import number

NOTE = "select skipmq.note_failure(%s, %s)"


@pytest.mark.parametrize("attributes", [None, '{"a":{"StringValue":"x","DataType":"String"}}'])
@pytest.mark.parametrize("reason", [None, ""])
def test_attributes_without_a_reason_stay(
    owner: Connection, attributes: str | None, reason: str | None
) -> None:
    assert number(owner, NOTE, attributes, reason) == attributes


def test_reason_replaces_the_one_before(owner: Connection) -> None:
    first = number(owner, NOTE, None, "first")

    found = json.loads(number(owner, NOTE, first, "second"))

    assert found == {"FailureReason": {"DataType": "String", "StringValue": "second"}}


def test_failures_are_not_for_nodes_to_note(node: Connection) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        node.execute("select skipmq.note_failure(null, 'x')")
