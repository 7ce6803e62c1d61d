"""Why messages failed: counted on the pages of a dead-letter queue, and in a timeline."""

import json
from typing import Any

from support.browser import Browser
from support.http import NodeProcess, client, eventually
from support.key_commands import ACCOUNT, Keys
from support.postgres import Databases, as_node
from support.visitor import Visitor, signed_in

SCOPE = "console/us-east-1/000000000000"


def dead_letters(sqs: Any, name: str, reasons: list[str], account: str = "000000000000") -> str:
    """Make dead letters, each with a reason or without one; return a message's ID."""
    dead = sqs.create_queue(QueueName=f"{name}-dead")["QueueUrl"]
    arn = f"arn:aws:sqs:us-east-1:{account}:{name}-dead"
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    queue = sqs.create_queue(QueueName=name, Attributes={"RedrivePolicy": policy})["QueueUrl"]
    for n, reason in enumerate(reasons):
        attribute = {"DataType": "String", "StringValue": reason}
        attributes = {"FailureReason": attribute} if reason else {}
        sent = sqs.send_message(QueueUrl=queue, MessageBody=str(n), MessageAttributes=attributes)[
            "MessageId"
        ]

    def moved() -> bool:
        sqs.receive_message(QueueUrl=queue, VisibilityTimeout=0, MaxNumberOfMessages=10)
        found = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["All"])["Attributes"]
        return bool(found["ApproximateNumberOfMessages"] == str(len(reasons)))

    eventually(moved)
    return str(sent)


def test_dead_letter_queue_counts_its_kinds_of_failure(node: NodeProcess, browser: Browser) -> None:
    sqs = client(node.url)
    sent = dead_letters(sqs, "broken", ["Timeout 1 s", "Timeout 2 s", "", "KeyError: '<b>'"])
    sqs.send_message(
        QueueUrl=sqs.get_queue_url(QueueName="broken-dead")["QueueUrl"], MessageBody="x"
    )
    browser.look("phone", "dark")
    for page in ("queues/broken-dead/messages", "queues/broken-dead/redrive"):
        browser.open(f"{node.url}/{SCOPE}/{page}")

        eventually(lambda: browser.count(".kinds li") == 3)
        assert browser.texts(".kinds .num") == ["2", "2", "1"]
        assert set(browser.texts(".kinds .kind")) == {
            "Timeout # s", "no reason was left by a consumer", "KeyError: '<b>'"
        }  # fmt: skip
        assert "1 has no source queue" in browser.text("#failures")
        assert browser.complaints() == []
    timeline = Visitor(node.url).get(f"queues/broken-dead/timeline?message={sent}").body
    assert "KeyError: &#39;&lt;b&gt;&#39;" in timeline


def test_queue_of_no_dead_letters_has_no_kinds(node: NodeProcess) -> None:
    sqs = client(node.url)
    url = sqs.create_queue(QueueName="unbroken")["QueueUrl"]
    visitor = Visitor(node.url)
    assert "The queue is empty" in visitor.get("queues/unbroken/failures").body
    sqs.send_message(QueueUrl=url, MessageBody="x")

    assert "Why they failed" not in visitor.get("queues/unbroken/messages").body
    assert "Why they failed" not in visitor.get("queues/unbroken/redrive").body


def test_reason_needs_the_right_to_peek(signing: NodeProcess, keys: Keys) -> None:
    admin = keys.create()
    signed_in(signing, admin)
    dead_letters(client(signing.url, **admin), "unpeeked", ["KeyError"], ACCOUNT)
    consumer = signed_in(signing, keys.create(ACCOUNT, "--role", "consumer"))

    answer = consumer.get("queues/unpeeked-dead/failures")

    assert "KeyError" not in answer.body


def test_masked_fields_of_a_reason_are_hidden(embedded_databases: Databases) -> None:
    url = as_node(embedded_databases.migrated())
    with NodeProcess(database_url=url, workers=1, console_mask="password") as node:
        node.ready()
        dead_letters(client(node.url), "masked", ['refused: {"password": "hunter"}'])
        visitor = Visitor(node.url)

        for page in ("queues/masked-dead/failures", "queues/masked-dead/messages"):
            body = visitor.get(page).body
            assert "refused" in body
            assert "hunter" not in body
