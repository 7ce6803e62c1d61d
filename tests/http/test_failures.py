"""Why messages failed: left by HTTP, grouped by kind, shown in a timeline."""

import json
from collections.abc import Callable
from typing import Any

import pytest

Ask = Callable[..., dict[str, Any]]


@pytest.fixture(params=["standard", "fifo"])
def handle(request: pytest.FixtureRequest, sqs: Any, name: str) -> tuple[str, str, str]:
    """Give a queue of each type, its message's ID, and the receipt handle of a receive."""
    fifo = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    is_fifo = request.param == "fifo"
    queue = sqs.create_queue(
        QueueName=f"{name}-failing{'.fifo' * is_fifo}", Attributes=fifo if is_fifo else {}
    )["QueueUrl"]
    group = {"MessageGroupId": "g"} if is_fifo else {}
    sent = sqs.send_message(QueueUrl=queue, MessageBody="x", **group)
    (message,) = sqs.receive_message(QueueUrl=queue)["Messages"]
    return queue, sent["MessageId"], message["ReceiptHandle"]


def test_reason_is_left_and_the_message_hidden(
    sqs: Any, ask: Ask, handle: tuple[str, str, str]
) -> None:
    queue, message, receipt = handle
    left = {"QueueUrl": queue, "ReceiptHandle": receipt, "FailureReason": "KeyError: 'sku'"}

    assert ask("FailMessage", **left, VisibilityTimeout=0) == {}

    (again,) = sqs.receive_message(QueueUrl=queue, MessageAttributeNames=["All"])["Messages"]
    assert again["MessageAttributes"]["FailureReason"]["StringValue"] == "KeyError: 'sku'"
    last = ask("GetMessageTimeline", QueueUrl=queue, MessageId=message)["Events"][-1]
    assert (last["Event"], last["FailureReason"]) == ("in-flight", "KeyError: 'sku'")


def test_reason_without_a_timeout_leaves_the_visibility(
    ask: Ask, handle: tuple[str, str, str]
) -> None:
    queue, _, receipt = handle

    ask("FailMessage", QueueUrl=queue, ReceiptHandle=receipt, FailureReason="Timeout 30 s")

    (message,) = ask("PeekMessages", QueueUrl=queue)["Messages"]
    assert message["State"] == "in-flight"
    assert message["VisibleInSeconds"] > 20
    found = ask("ListMessageFailures", QueueUrl=queue)
    assert [(each["FailureKind"], each["Messages"]) for each in found["Kinds"]] == [
        ("Timeout # s", 1)
    ]
    assert (found["Counted"], found["IsWhole"], found["Sources"]) == (1, True, [{"Messages": 1}])


def test_reason_after_the_delete_is_refused(
    sqs: Any, ask: Ask, handle: tuple[str, str, str]
) -> None:
    queue, _, receipt = handle
    left = {"QueueUrl": queue, "ReceiptHandle": receipt, "FailureReason": "late"}
    for wrong in ({"FailureReason": " "}, {"VisibilityTimeout": -1}, {"ReceiptHandle": "x"}):
        ask("FailMessage", status=400, **(left | wrong))
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=receipt)

    answer = ask("FailMessage", status=400, **left)

    assert "InvalidParameterValue" in answer["__type"]


@pytest.fixture
def dead(sqs: Any, name: str, handle: tuple[str, str, str]) -> str:
    """Give the URL of the dead-letter queue of the failing queue."""
    fifo = ".fifo" * handle[0].endswith(".fifo")
    attributes = {"FifoQueue": "true"} if fifo else {}
    url = sqs.create_queue(QueueName=f"{name}-dead{fifo}", Attributes=attributes)["QueueUrl"]
    (arn,) = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])[
        "Attributes"
    ].values()
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 100})
    sqs.set_queue_attributes(QueueUrl=handle[0], Attributes={"RedrivePolicy": policy})
    return str(url)


def test_received_message_is_dead_lettered_with_its_source_and_reason(
    sqs: Any, ask: Ask, handle: tuple[str, str, str], dead: str
) -> None:
    queue, message, receipt = handle
    left = {"QueueUrl": queue, "ReceiptHandle": receipt, "FailureReason": "KeyError: 'sku'"}

    assert ask("DeadLetterMessage", **left) == {}

    (letter,) = sqs.receive_message(
        QueueUrl=dead, MessageAttributeNames=["All"], MessageSystemAttributeNames=["All"]
    )["Messages"]
    assert letter["MessageId"] == message
    assert letter["MessageAttributes"]["FailureReason"]["StringValue"] == "KeyError: 'sku'"
    source = letter["Attributes"]["DeadLetterQueueSourceArn"]
    assert source.rpartition(":")[2] == queue.rpartition("/")[2]
    for wrong in ({}, {"FailureReason": "\0"}, {"ReceiptHandle": "x"}):
        ask("DeadLetterMessage", status=400, **(left | wrong))


def test_all_failures_of_a_message_are_kept_until_it_goes(
    sqs: Any, ask: Ask, handle: tuple[str, str, str], dead: str
) -> None:
    queue, message, receipt = handle
    for reason in ("timeout", "KeyError: 'sku'\n  line 7"):
        ask(
            "FailMessage",
            QueueUrl=queue,
            ReceiptHandle=receipt,
            FailureReason=reason,
            VisibilityTimeout=0,
        )
        (again,) = sqs.receive_message(QueueUrl=queue)["Messages"]
        receipt = again["ReceiptHandle"]
    ask("DeadLetterMessage", QueueUrl=queue, ReceiptHandle=receipt, FailureReason="gave up")

    (letter,) = ask("PeekMessages", QueueUrl=dead)["Messages"]

    found = [(each["Receives"], each["FailureReason"]) for each in letter["Failures"]]
    assert found == [(1, "timeout"), (2, "KeyError: 'sku'\n  line 7"), (3, "gave up")]
    assert {each["ClientAddress"] for each in letter["Failures"]} == {"127.0.0.1"}
    picked = ask("PeekMessages", QueueUrl=dead, MessageReferences=[letter["MessageReference"]])
    assert picked["Messages"] == [letter]
    events = ask("GetMessageTimeline", QueueUrl=dead, MessageId=message)["Events"]
    failed = [each for each in events if each["Event"] == "failed"]
    assert [each["At"] for each in failed] == [each["At"] for each in letter["Failures"]]
    assert [each["Event"] for each in events if each["Event"] != "failed"] == [
        "sent", "first-received", "dead-lettered", "visible",
    ]  # fmt: skip
    ask("MoveMessages", QueueUrl=dead, DestinationQueueUrl=queue,
        MessageReferences=[letter["MessageReference"]])  # fmt: skip
    (redriven,) = ask("PeekMessages", QueueUrl=queue)["Messages"]
    assert redriven["Failures"] == letter["Failures"]
    now = ask("GetMessageTimeline", QueueUrl=queue, MessageId=redriven["MessageId"])["Events"]
    assert [each["Event"] for each in now] == ["sent", "visible"]


def test_message_of_a_queue_without_dead_letter_queue_stays(
    ask: Ask, handle: tuple[str, str, str]
) -> None:
    queue, _, receipt = handle

    answer = ask("DeadLetterMessage", status=400, QueueUrl=queue, ReceiptHandle=receipt)

    assert "UnsupportedOperation" in answer["__type"]
    assert "no dead-letter queue" in answer["message"]
    (message,) = ask("PeekMessages", QueueUrl=queue)["Messages"]
    assert message["State"] == "in-flight"
