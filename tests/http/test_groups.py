"""Groups of FIFO queues, and the release of messages in flight."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError

from support.http import eventually

Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def fifo(sqs: Any, name: str) -> str:
    attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    made = sqs.create_queue(QueueName=f"{name}.fifo", Attributes=attributes)
    return str(made["QueueUrl"])


def test_released_group_reaches_a_waiting_receiver(sqs: Any, fifo: str, ask: Ask) -> None:
    for n in range(3):
        sqs.send_message(QueueUrl=fifo, MessageBody=str(n), MessageGroupId="g")
    received = sqs.receive_message(
        QueueUrl=fifo, MaxNumberOfMessages=2, VisibilityTimeout=600, WaitTimeSeconds=1
    )["Messages"]
    (group,) = ask("ListMessageGroups", QueueUrl=fifo)["Groups"]
    assert (group["MessageGroupId"], group["State"]) == ("g", "in-flight")
    assert (group["MessagesInFlight"], group["MessagesBehind"]) == (2, 1)
    assert group["MessageId"] == received[0]["MessageId"]
    assert 599_000 <= group["VisibleTimestamp"] - group["ReceivedTimestamp"] <= 601_000
    assert group["ClientAddress"] in {"127.0.0.1", "::1"}

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(
            sqs.receive_message, QueueUrl=fifo, MaxNumberOfMessages=10, WaitTimeSeconds=20
        )
        eventually(lambda: ask("ListConsumers", QueueUrl=fifo)["WaitingReceivers"] == 1)
        answer = ask("ReleaseMessages", QueueUrl=fifo, MessageGroupIds=["g", "h"])
        messages = waiting.result(15)["Messages"]

    assert answer == {
        "Released": 2,
        "Results": [
            {"MessageGroupId": "g", "Outcome": "released"},
            {"MessageGroupId": "h", "Outcome": "missing"},
        ],
    }
    assert [each["Body"] for each in messages] == ["0", "1", "2"]
    with pytest.raises(ClientError) as caught:
        sqs.delete_message(QueueUrl=fifo, ReceiptHandle=received[0]["ReceiptHandle"])
    assert "expired" in str(caught.value)


def test_message_is_released_by_its_id(sqs: Any, queue: str, ask: Ask) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="a")
    (received,) = sqs.receive_message(QueueUrl=queue, VisibilityTimeout=600)["Messages"]

    released = ask("ReleaseMessages", QueueUrl=queue, MessageReferences=[received["MessageId"]])

    assert released["Released"] == 1
    (again,) = sqs.receive_message(
        QueueUrl=queue, AttributeNames=["ApproximateReceiveCount"], WaitTimeSeconds=5
    )["Messages"]
    assert again["Attributes"] == {"ApproximateReceiveCount": "2"}


def test_pages_of_groups(sqs: Any, fifo: str, ask: Ask) -> None:
    for n in range(5):
        sqs.send_message(QueueUrl=fifo, MessageBody=str(n), MessageGroupId=f"g{n}")

    first = ask("ListMessageGroups", QueueUrl=fifo, MaxResults=3)
    second = ask("ListMessageGroups", QueueUrl=fifo, NextToken=first["NextToken"])

    found = [each["MessageGroupId"] for page in (first, second) for each in page["Groups"]]
    assert sorted(found) == [f"g{n}" for n in range(5)]
    assert "NextToken" not in second


def test_message_is_rescheduled_whatever_its_state_is(sqs: Any, queue: str, ask: Ask) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="later", DelaySeconds=900)
    (delayed,) = ask("PeekMessages", QueueUrl=queue)["Messages"]
    given = {"QueueUrl": queue, "MessageReferences": [delayed["MessageReference"]]}

    later = ask("ReleaseMessages", **given, VisibleInSeconds=3600)
    (hidden,) = ask("PeekMessages", QueueUrl=queue)["Messages"]
    now = ask("ReleaseMessages", **given, VisibleInSeconds=0)

    assert (later["Released"], now["Released"]) == (0, 1)
    assert {each["Results"][0]["Outcome"] for each in (later, now)} == {"rescheduled"}
    assert 900 < hidden["VisibleInSeconds"] <= 3600
    (received,) = sqs.receive_message(QueueUrl=queue)["Messages"]
    assert received["Body"] == "later"
    assert ask("ReleaseMessages", **given, VisibleInSeconds=60)["Released"] == 0
    assert "Messages" not in sqs.receive_message(QueueUrl=queue)
    wrong = ask("ReleaseMessages", status=400, **given, VisibleInSeconds=43_201)
    assert "InvalidParameterValue" in wrong["__type"]
    given["MessageReferences"] = [received["MessageId"]]
    # By its message ID only a delayed message is rescheduled.
    missed = ask("ReleaseMessages", **given, VisibleInSeconds=60)
    assert missed["Results"][0]["Outcome"] == "missing"


def test_messages_of_a_fifo_queue_are_not_rescheduled(fifo: str, ask: Ask) -> None:
    reference = "1-00000000-0000-4000-8000-000000000000"
    given = {"QueueUrl": fifo, "MessageReferences": [reference], "VisibleInSeconds": 5}

    assert "InvalidParameterValue" in ask("ReleaseMessages", status=400, **given)["__type"]
