"""Which requests are in the log of a node, and what it says of them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from skipmq.server.request_log import Caller, Limit
from support.http import NodeProcess, client, eventually, raw
from support.postgres import Databases, as_node

BODY = "nobody-shall-read-this"


@pytest.fixture
def url(embedded_databases: Databases) -> Iterator[str]:
    url = embedded_databases.migrated()
    yield as_node(url)
    embedded_databases.drop(url)


def records(node: NodeProcess, event: str) -> list[dict[str, Any]]:
    found = (json.loads(line) for line in node.lines if line.startswith("{"))
    return [each for each in found if each["event"] == event]


def test_sample_of_all_has_each_request_and_no_body(url: str) -> None:
    with NodeProcess(database_url=url, workers=1, log_sample=1) as node:
        sqs = client(node.ready().url)
        queue = sqs.create_queue(QueueName="orders")["QueueUrl"]
        sent = sqs.send_message(QueueUrl=queue, MessageBody=BODY)
        eventually(lambda: records(node, "request"))

    (record,) = records(node, "request")
    assert record["request_id"] == sent["ResponseMetadata"]["RequestId"]
    assert record["request_bytes"] > len(BODY)
    assert record["response_bytes"] > 0
    assert record["milliseconds"] > 0
    kept = ("action", "queue", "account", "client", "status", "outcome")
    assert {name: record[name] for name in kept} == {
        "action": "SendMessage",
        "queue": "arn:aws:sqs:us-east-1:000000000000:orders",
        "account": "000000000000",
        "client": "127.0.0.1",
        "status": 200,
        "outcome": "done",
    }
    assert [each["action"] for each in records(node, "audit")] == ["CreateQueue"]
    assert BODY not in node.log


def test_error_is_logged_and_what_goes_well_is_not(url: str) -> None:
    with NodeProcess(database_url=url, workers=1) as node:
        sqs = client(node.ready().url)
        queue = sqs.create_queue(QueueName="orders")["QueueUrl"]
        sqs.send_message(QueueUrl=queue, MessageBody=BODY)
        raw(f"{node.url}/", b"Action=Nonsense")
        raw(f"{queue}-none", b"Action=ReceiveMessage")
        eventually(lambda: len(records(node, "request")) == 2)
        refused = 'denied_total{caller="no key",error="NonExistentQueue",queue="orders-none"} 1.0'
        eventually(lambda: refused in node.metrics())

    unknown, missing = records(node, "request")
    assert (unknown["outcome"], unknown["status"]) == ("InvalidAction", 400)
    assert (missing["action"], missing["outcome"]) == (
        "ReceiveMessage",
        "AWS.SimpleQueueService.NonExistentQueue",
    )
    assert missing["reason"] == "The specified queue does not exist."


def test_no_more_errors_are_logged_than_a_second_has_room_for() -> None:
    limit = Limit("errors")

    kept = sum(limit.allows() for _ in range(5000))

    # 50, and as many for each second that begins meanwhile.
    assert 50 <= kept < 5000


def test_records_of_one_caller_leave_room_for_those_of_others() -> None:
    limit = Limit("refusals", limit=5, seconds=86_400)
    callers = [Caller("no key"), Caller("unknown key"), Caller("claimed key", "A")]

    for caller in [*callers, Caller("key", "A")]:
        # Twice as many where a day begins meanwhile.
        assert sum(limit.allows(caller) for _ in range(1_000)) in range(5, 11)


def test_many_claimed_keys_take_bounded_memory_and_hide_no_key() -> None:
    limit = Limit("refusals", limit=5, seconds=86_400)

    kept = sum(limit.allows(Caller("claimed key", str(n))) for n in range(10_000))

    assert kept in range(20, 100)
    assert limit.allows(Caller("key", "A"))
    assert limit.allows(Caller("no key"))
    assert len(limit._records) < 50  # noqa: SLF001 - memory shows nowhere else.
