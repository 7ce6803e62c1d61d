import json
from base64 import b64decode, b64encode
from typing import Any

import pytest
from botocore.exceptions import ClientError

from support.http import eventually

ARN = "arn:aws:sqs:us-east-1:000000000000:"
# At one a second they last for longer than a machine stands still.
LETTERS = 10
TASK = "00000000-0000-0000-0000-000000000000"


@pytest.fixture
def dead(sqs: Any, name: str) -> str:
    """Give the ARN of a dead-letter queue with messages; its source is NAME-source."""
    url = sqs.create_queue(QueueName=f"{name}-dead")["QueueUrl"]
    arn = f"{ARN}{name}-dead"
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    source = sqs.create_queue(QueueName=f"{name}-source", Attributes={"RedrivePolicy": policy})
    batch = [{"Id": str(n), "MessageBody": str(n)} for n in range(LETTERS)]
    sqs.send_message_batch(QueueUrl=source["QueueUrl"], Entries=batch)
    while sqs.receive_message(
        QueueUrl=source["QueueUrl"], MaxNumberOfMessages=10, VisibilityTimeout=0
    ).get("Messages"):
        pass
    assert count(sqs, url) == LETTERS
    return arn


def count(sqs: Any, url: str) -> int:
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    return int(found["ApproximateNumberOfMessages"])


def newest(sqs: Any, arn: str) -> dict[str, Any]:
    task: dict[str, Any] = sqs.list_message_move_tasks(SourceArn=arn)["Results"][0]
    return task


def told(caught: pytest.ExceptionInfo[ClientError]) -> tuple[str, str]:
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


def test_task_brings_letters_back_to_their_source(sqs: Any, dead: str, name: str) -> None:
    handle = sqs.start_message_move_task(SourceArn=dead)["TaskHandle"]

    task = eventually(lambda: (t := newest(sqs, dead))["Status"] == "COMPLETED" and t)

    assert json.loads(b64decode(handle))["sourceArn"] == dead
    assert task["ApproximateNumberOfMessagesMoved"] == LETTERS
    assert task["ApproximateNumberOfMessagesToMove"] == LETTERS
    assert task["StartedTimestamp"] > 1_600_000_000_000
    assert "TaskHandle" not in task
    source = sqs.get_queue_url(QueueName=f"{name}-source")["QueueUrl"]
    received = sqs.receive_message(QueueUrl=source, MaxNumberOfMessages=10, AttributeNames=["All"])[
        "Messages"
    ]
    assert sorted(m["Body"] for m in received) == [str(n) for n in range(LETTERS)]
    assert {m["Attributes"]["ApproximateReceiveCount"] for m in received} == {"1"}


def test_task_whose_last_message_has_been_moved_is_completed(
    sqs: Any, dead: str, name: str
) -> None:
    sqs.start_message_move_task(SourceArn=dead)
    source = sqs.get_queue_url(QueueName=f"{name}-source")["QueueUrl"]

    eventually(lambda: count(sqs, source) == LETTERS)

    assert newest(sqs, dead)["Status"] == "COMPLETED"
    assert sqs.start_message_move_task(SourceArn=dead)["TaskHandle"]


def test_redrive_of_messages_that_came_from_no_queue_fails(sqs: Any, name: str) -> None:
    url = sqs.create_queue(QueueName=f"{name}-dead")["QueueUrl"]
    arn = f"{ARN}{name}-dead"
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    sqs.create_queue(QueueName=f"{name}-source", Attributes={"RedrivePolicy": policy})
    sqs.send_message(QueueUrl=url, MessageBody="direct")

    sqs.start_message_move_task(SourceArn=arn)

    task = eventually(lambda: (t := newest(sqs, arn))["Status"] != "RUNNING" and t)
    assert (task["Status"], task["FailureReason"]) == ("FAILED", "CouldNotDetermineMessageSource")
    assert task["ApproximateNumberOfMessagesMoved"] == 0
    assert count(sqs, url) == 1


def test_letters_come_back_as_new_messages_sent_now(sqs: Any, dead: str, name: str) -> None:
    letters = sqs.get_queue_url(QueueName=f"{name}-dead")["QueueUrl"]
    wanted = {"MaxNumberOfMessages": 10, "AttributeNames": ["SentTimestamp"]}
    before = sqs.receive_message(QueueUrl=letters, VisibilityTimeout=0, **wanted)["Messages"]

    sqs.start_message_move_task(SourceArn=dead)
    eventually(lambda: newest(sqs, dead)["Status"] == "COMPLETED")

    source = sqs.get_queue_url(QueueName=f"{name}-source")["QueueUrl"]
    after = sqs.receive_message(QueueUrl=source, **wanted)["Messages"]
    assert not {m["MessageId"] for m in after} & {m["MessageId"] for m in before}
    sent = {m["Body"]: int(m["Attributes"]["SentTimestamp"]) for m in before}
    assert all(int(m["Attributes"]["SentTimestamp"]) > sent[m["Body"]] for m in after)


def test_task_takes_letters_elsewhere(sqs: Any, dead: str, queue: str, name: str) -> None:
    sqs.start_message_move_task(SourceArn=dead, DestinationArn=f"{ARN}{name}")

    eventually(lambda: count(sqs, queue) == LETTERS)

    assert newest(sqs, dead)["DestinationArn"] == f"{ARN}{name}"


def test_running_task_shows_its_handle_and_can_be_cancelled(sqs: Any, dead: str) -> None:
    handle = sqs.start_message_move_task(SourceArn=dead, MaxNumberOfMessagesPerSecond=1)
    running = newest(sqs, dead)

    with pytest.raises(ClientError) as caught:
        sqs.start_message_move_task(SourceArn=dead)
    moved = sqs.cancel_message_move_task(TaskHandle=handle["TaskHandle"])

    assert running["TaskHandle"] == handle["TaskHandle"]
    assert running["MaxNumberOfMessagesPerSecond"] == 1
    assert told(caught) == (
        "InvalidParameterValue",
        "There is already a task running. Only one active task is allowed for a source queue arn"
        " at a given time.",
    )
    assert moved["ApproximateNumberOfMessagesMoved"] < LETTERS
    eventually(lambda: newest(sqs, dead)["Status"] == "CANCELLED")


def test_task_is_cancelled_right_after_its_start(
    sqs: Any, dead: str, queue: str, name: str
) -> None:
    started = sqs.start_message_move_task(SourceArn=dead, DestinationArn=f"{ARN}{name}")
    cancelled = sqs.cancel_message_move_task(TaskHandle=started["TaskHandle"])
    eventually(lambda: newest(sqs, dead)["Status"] in ("CANCELLED", "COMPLETED"))

    # On a machine that stood still in between it has ended.
    task, moved = newest(sqs, dead), cancelled["ApproximateNumberOfMessagesMoved"]
    assert (task["Status"], moved) in [("CANCELLED", 0), ("COMPLETED", LETTERS)]
    assert task["ApproximateNumberOfMessagesMoved"] == count(sqs, queue) == moved


@pytest.mark.parametrize("action", ["start_message_move_task", "list_message_move_tasks"])
def test_task_of_no_queue_is_not_found(sqs: Any, action: str) -> None:
    with pytest.raises(sqs.exceptions.ResourceNotFoundException) as caught:
        getattr(sqs, action)(SourceArn=f"{ARN}nowhere")

    assert told(caught)[1] == (
        "The resource that you specified for the SourceArn parameter doesn't exist."
    )
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 404


def encoded(content: Any) -> str:
    return b64encode(json.dumps(content).encode()).decode()


@pytest.mark.parametrize(
    "handle",
    [
        *("nonsense", "e30=", "ß", "W10=", "====", "e30", "x" * 3000),
        encoded({"taskId": TASK}),
        encoded({"sourceArn": f"{ARN}x"}),
        encoded({"taskId": "1", "sourceArn": f"{ARN}x"}),
        encoded({"taskId": TASK, "sourceArn": 1}),
        encoded([TASK, f"{ARN}x"]),
    ],
    ids=lambda handle: handle[:40],
)
def test_handle_that_cannot_be_read_is_refused(sqs: Any, handle: str) -> None:
    with pytest.raises(ClientError) as caught:
        sqs.cancel_message_move_task(TaskHandle=handle)

    assert told(caught) == ("InvalidParameterValue", "Value for parameter TaskHandle is invalid.")


@pytest.mark.parametrize("source", [f"{ARN}nowhere", "arn:aws:sqs:eu-west-1:1:x", "nonsense", ""])
def test_handle_whose_source_does_not_exist_is_not_found(sqs: Any, source: str) -> None:
    with pytest.raises(sqs.exceptions.ResourceNotFoundException) as caught:
        sqs.cancel_message_move_task(TaskHandle=encoded({"taskId": TASK, "sourceArn": source}))

    assert told(caught)[1] == (
        "The resource that you specified for the SourceArn parameter doesn't exist."
    )
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 404


def test_handle_of_a_task_whose_source_was_deleted_is_not_found(
    sqs: Any, dead: str, name: str
) -> None:
    handle = sqs.start_message_move_task(SourceArn=dead, MaxNumberOfMessagesPerSecond=1)
    sqs.delete_queue(QueueUrl=sqs.get_queue_url(QueueName=f"{name}-dead")["QueueUrl"])

    with pytest.raises(sqs.exceptions.ResourceNotFoundException):
        sqs.cancel_message_move_task(TaskHandle=handle["TaskHandle"])


@pytest.mark.parametrize("bad", ["nonsense", "arn:aws:sqs", "http://h/000000000000/q", ":" * 9, ""])
def test_what_is_no_arn_is_an_invalid_value(sqs: Any, dead: str, bad: str) -> None:
    for call, parameter in (
        (lambda: sqs.start_message_move_task(SourceArn=bad), "SourceArn"),
        (
            lambda: sqs.start_message_move_task(SourceArn=dead, DestinationArn=bad),
            "DestinationArn",
        ),
        (lambda: sqs.list_message_move_tasks(SourceArn=bad), "SourceArn"),
    ):
        with pytest.raises(ClientError) as caught:
            call()
        assert told(caught) == (
            "InvalidParameterValue",
            f"Value {bad} for parameter {parameter} is invalid."
            " Reason: Must be the ARN of a queue.",
        )
    assert sqs.list_message_move_tasks(SourceArn=dead).get("Results", []) == []


@pytest.mark.parametrize("rate", [0, 501])
def test_rate_out_of_range_is_refused(sqs: Any, dead: str, rate: int) -> None:
    with pytest.raises(ClientError) as caught:
        sqs.start_message_move_task(SourceArn=dead, MaxNumberOfMessagesPerSecond=rate)

    assert told(caught)[0] == "InvalidParameterValue"
