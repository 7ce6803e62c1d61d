"""The failures of a message in its timeline, and in JSON as it is peeked at."""

import json

import psycopg

from support.commands import run
from support.postgres import as_node


def test_failures_are_in_the_timeline_and_in_json(lent: str) -> None:
    url = as_node(lent)
    run("queue", "create", "orders", database_url=url)
    sent = json.loads(run("queue", "send", "orders", "tea", "--json", database_url=url))
    message_id = sent["message_id"]

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "select skipmq.change_message_visibility("
            "'orders', id, receive_count, message_id, 0, p_reason => 'KeyError: sku')"
            " from skipmq.receive_message('orders')"
        )
    failed = run("queue", "timeline", "orders", message_id, database_url=url)
    (event,) = (line for line in failed.splitlines() if " failed " in line)
    assert event.endswith("KeyError: sku")
    (peeked,) = json.loads(run("queue", "peek", "orders", "--json", database_url=url))["messages"]
    assert [each["failure_reason"] for each in peeked["failures"]] == ["KeyError: sku"]
