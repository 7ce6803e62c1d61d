from typing import Any

import psycopg
import pytest

from support.postgres import Connection
from support.sql import number

ADD = "select skipmq.add_failure(%s::jsonb, %s, %s, %s, %s)"
SENT = "2026-01-01"


def added(owner: Connection, failures: Any, receive: int, reason: str, sent: str = SENT) -> Any:
    kept = None if failures is None else psycopg.types.json.Jsonb(failures)
    return number(owner, ADD, kept, sent, receive, reason, "http/AKIA/10.0.0.1")


def test_failures_are_kept_in_their_order_up_to_twenty(owner: Connection) -> None:
    failures = None
    for receive in range(1, 23):
        failures = added(owner, failures, receive, f"reason {receive}")

    assert [each["receive"] for each in failures] == list(range(3, 23))
    assert failures[-1]["reason"] == "reason 22"
    assert failures[-1]["receiver"] == "http/AKIA/10.0.0.1"


def test_receive_has_one_failure_until_a_redrive_counts_again(owner: Connection) -> None:
    first = added(owner, None, 1, "timeout")

    second = added(owner, first, 1, "KeyError")
    redriven = added(owner, second, 1, "KeyError", "2100-01-01")

    assert [each["reason"] for each in second] == ["KeyError"]
    assert [each["receive"] for each in redriven] == [1, 1]


def test_reason_is_bounded_and_none_changes_nothing(owner: Connection) -> None:
    long = added(owner, None, 1, "x" * 5000)

    assert len(long[0]["reason"]) == 1000
    assert number(owner, ADD, None, SENT, 1, None, None) is None
    assert number(owner, ADD, psycopg.types.json.Jsonb(long), SENT, 2, "", None) == long


def test_failures_are_not_for_nodes_to_add(node: Connection) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        node.execute("select skipmq.add_failure(null, now(), 1, 'x', null)")
