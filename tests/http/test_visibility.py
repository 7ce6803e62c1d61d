"""ChangeMessageVisibility of standard queues, single and in batches."""

from typing import Any

import pytest
from botocore.exceptions import ClientError


def told(caught: pytest.ExceptionInfo[ClientError]) -> tuple[str, str]:
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


def receive(sqs: Any, queue: str, **options: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = sqs.receive_message(
        QueueUrl=queue, MaxNumberOfMessages=10, **options
    ).get("Messages", [])
    return found


def test_change_visibility_to_zero_shows_the_message_again(sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    (message,) = receive(sqs, queue)

    sqs.change_message_visibility(
        QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0
    )

    assert len(receive(sqs, queue)) == 1


def change_single(sqs: Any, queue: str, handle: str, timeout: int) -> None:
    sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=handle, VisibilityTimeout=timeout)


def change_in_batch(sqs: Any, queue: str, handle: str, timeout: int) -> None:
    entry = {"Id": "a", "ReceiptHandle": handle, "VisibilityTimeout": timeout}
    answer = sqs.change_message_visibility_batch(QueueUrl=queue, Entries=[entry])
    assert [each["Id"] for each in answer["Successful"]] == ["a"]


Change = pytest.mark.parametrize("change", [change_single, change_in_batch])


@Change
def test_change_visibility_after_the_timeout_hides_the_message_again(
    sqs: Any, queue: str, change: Any
) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    (message,) = receive(sqs, queue, VisibilityTimeout=0)

    change(sqs, queue, message["ReceiptHandle"], 600)

    assert receive(sqs, queue) == []
    change(sqs, queue, message["ReceiptHandle"], 0)
    assert [m["MessageId"] for m in receive(sqs, queue)] == [message["MessageId"]]


@Change
def test_change_visibility_works_with_every_handle_of_a_message(
    sqs: Any, queue: str, change: Any
) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    handles = [receive(sqs, queue, VisibilityTimeout=0)[0]["ReceiptHandle"] for _ in range(3)]

    for handle in handles:
        # In flight by a newer receive, and not.
        (newer,) = receive(sqs, queue, VisibilityTimeout=600)
        change(sqs, queue, handle, 0)
        change(sqs, queue, handle, 600)
        assert receive(sqs, queue) == []
        change(sqs, queue, newer["ReceiptHandle"], 0)

    assert len(receive(sqs, queue)) == 1


def test_change_visibility_of_a_deleted_message_says_it_does_not_exist(
    sqs: Any, queue: str
) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    (message,) = receive(sqs, queue)
    handle = message["ReceiptHandle"]
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=handle)

    with pytest.raises(ClientError) as caught:
        sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=handle, VisibilityTimeout=10)

    assert told(caught) == (
        "InvalidParameterValue",
        f"Value {handle} for parameter ReceiptHandle is invalid. Reason: Message does not exist"
        " or is not available for visibility timeout change.",
    )


def test_change_visibility_beyond_twelve_hours_in_all_is_refused(sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    (message,) = receive(sqs, queue)

    with pytest.raises(ClientError) as caught:
        sqs.change_message_visibility(
            QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=43200
        )

    assert told(caught)[1] == (
        "Value 43200 for parameter VisibilityTimeout is invalid. Reason: Total VisibilityTimeout"
        " for the message is beyond the limit [43200 seconds]"
    )
