"""What ListDeadLetterSourceQueues and the three actions of message move tasks do."""

import json
from base64 import b64encode
from typing import Any

import pytest

from support.http import ACCOUNT, eventually

# At one a second they last for longer than a machine stands still.
LETTERS = 10
ARN = f"arn:aws:sqs:us-east-1:{ACCOUNT}:"


def handle_of_no_task(source: str) -> str:
    """Return the handle of a task that is not there."""
    task = {"taskId": "00000000-0000-0000-0000-000000000000", "sourceArn": source}
    return b64encode(json.dumps(task).encode()).decode()


@pytest.fixture
def dead_arn(sqs: Any, queue: str, name: str) -> str:
    """Give the ARN of a dead-letter queue with messages from NAME-source."""
    arn = f"{ARN}{name}"
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    source = sqs.create_queue(QueueName=f"{name}-source", Attributes={"RedrivePolicy": policy})
    batch = [{"Id": str(n), "MessageBody": str(n)} for n in range(LETTERS)]
    sqs.send_message_batch(QueueUrl=source["QueueUrl"], Entries=batch)

    def arrived() -> bool:
        wanted = {"MaxNumberOfMessages": 10, "VisibilityTimeout": 0}
        sqs.receive_message(QueueUrl=source["QueueUrl"], **wanted)
        names = ["ApproximateNumberOfMessages"]
        found = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=names)["Attributes"]
        return bool(found[names[0]] == str(LETTERS))

    eventually(arrived)
    return arn


def tasks(sqs: Any, arn: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = sqs.list_message_move_tasks(SourceArn=arn, MaxResults=10)[
        "Results"
    ]
    return found


def test_task_is_started_listed_and_cancelled(sqs: Any, dead_arn: str, name: str) -> None:
    sqs.create_queue(QueueName=f"{name}-target")
    target = f"{ARN}{name}-target"

    handle = sqs.start_message_move_task(
        SourceArn=dead_arn, DestinationArn=target, MaxNumberOfMessagesPerSecond=1
    )["TaskHandle"]
    (running,) = tasks(sqs, dead_arn)
    moved = sqs.cancel_message_move_task(TaskHandle=handle)["ApproximateNumberOfMessagesMoved"]
    ended = eventually(lambda: (t := tasks(sqs, dead_arn)[0])["Status"] == "CANCELLED" and t)

    assert running.pop("StartedTimestamp") > 1.6e12
    assert running.pop("ApproximateNumberOfMessagesMoved") <= moved <= LETTERS
    assert running == {
        "TaskHandle": handle,
        "Status": "RUNNING",
        "SourceArn": dead_arn,
        "DestinationArn": target,
        "MaxNumberOfMessagesPerSecond": 1,
        "ApproximateNumberOfMessagesToMove": LETTERS,
    }
    assert "TaskHandle" not in ended


def test_task_that_loses_its_destination_fails_with_a_reason(
    sqs: Any, dead_arn: str, name: str
) -> None:
    target = sqs.create_queue(QueueName=f"{name}-target")["QueueUrl"]
    sqs.start_message_move_task(
        SourceArn=dead_arn, DestinationArn=f"{ARN}{name}-target", MaxNumberOfMessagesPerSecond=1
    )

    sqs.delete_queue(QueueUrl=target)

    failed = eventually(lambda: (t := tasks(sqs, dead_arn)[0])["Status"] == "FAILED" and t)
    assert failed["FailureReason"] == "AWS.SimpleQueueService.NonExistentQueue"
    assert "TaskHandle" not in failed


def test_task_of_nothing_is_not_found(sqs: Any, dead_arn: str) -> None:
    for call, text in (
        (
            lambda: sqs.start_message_move_task(SourceArn=f"{ARN}nowhere"),
            "The resource that you specified for the SourceArn parameter doesn't exist.",
        ),
        (
            lambda: sqs.start_message_move_task(SourceArn=dead_arn, DestinationArn=f"{ARN}nowhere"),
            "The resource that you specified for the DestinationArn parameter doesn't exist.",
        ),
        (
            lambda: sqs.list_message_move_tasks(SourceArn=f"{ARN}nowhere"),
            "The resource that you specified for the SourceArn parameter doesn't exist.",
        ),
        (
            lambda: sqs.cancel_message_move_task(TaskHandle=handle_of_no_task(dead_arn)),
            "Task does not exist.",
        ),
        (
            lambda: sqs.cancel_message_move_task(TaskHandle=handle_of_no_task(f"{ARN}nowhere")),
            "The resource that you specified for the SourceArn parameter doesn't exist.",
        ),
    ):
        with pytest.raises(sqs.exceptions.ResourceNotFoundException) as caught:
            call()
        assert caught.value.response["Error"]["Message"] == text


def test_sources_of_a_dead_letter_queue_come_in_pages(sqs: Any, queue: str, name: str) -> None:
    policy = json.dumps({"deadLetterTargetArn": f"{ARN}{name}", "maxReceiveCount": 1})
    urls = [
        sqs.create_queue(QueueName=f"{name}-{n}", Attributes={"RedrivePolicy": policy})["QueueUrl"]
        for n in range(3)
    ]

    first = sqs.list_dead_letter_source_queues(QueueUrl=queue, MaxResults=2)
    second = sqs.list_dead_letter_source_queues(
        QueueUrl=queue, MaxResults=2, NextToken=first["NextToken"]
    )

    assert (first["queueUrls"], second["queueUrls"]) == (urls[:2], urls[2:])
    assert "NextToken" not in second
