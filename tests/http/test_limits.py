from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

LIMITS = {
    "MaximumInFlight": "3",
    "MaximumInFlightPerGroup": "2",
    "MaximumReceiveRate": "0.5",
    "ReceiveBurst": "7",
    "PriorityMode": "strict",
}


def attributes(sqs: Any, queue: str, *names: str) -> dict[str, str]:
    got = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=[*names])
    return dict(got.get("Attributes", {}))


def received(sqs: Any, queue: str, most: int = 10, wait: int = 0) -> list[dict[str, Any]]:
    answer = sqs.receive_message(
        QueueUrl=queue, MaxNumberOfMessages=most, WaitTimeSeconds=wait, AttributeNames=["All"]
    )
    return list(answer.get("Messages", []))


def test_limits_are_shown_where_they_are_set_and_removed_by_an_empty_text(
    sqs: Any, queue: str
) -> None:
    assert not LIMITS.keys() & attributes(sqs, queue, "All").keys()
    sqs.set_queue_attributes(QueueUrl=queue, Attributes=LIMITS | {"MaximumReceiveRate": "0.50"})

    everything, one = attributes(sqs, queue, "All"), attributes(sqs, queue, "PriorityMode")
    sqs.set_queue_attributes(
        QueueUrl=queue, Attributes=dict.fromkeys(LIMITS, "") | {"PriorityMode": "none"}
    )

    assert LIMITS.items() <= everything.items()
    assert one == {"PriorityMode": "strict"}
    assert not LIMITS.keys() & attributes(sqs, queue, "All").keys()


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("MaximumInFlight", "0", "Must be a whole number from 1 to 120000, or empty for no limit"),
        ("MaximumReceiveRate", "0", "Must be a number from 0.001 to 1000000, or empty for no"),
        ("MaximumReceiveRate", "1.2345", "Must be a number from 0.001"),
        ("PriorityMode", "first", "Must be none, strict or weighted"),
    ],
)
def test_limit_that_cannot_be_is_refused(
    sqs: Any, queue: str, name: str, value: str, reason: str
) -> None:
    with pytest.raises(ClientError, match=reason):
        sqs.set_queue_attributes(QueueUrl=queue, Attributes={name: value})


def test_limit_of_groups_is_for_standard_queues(sqs: Any, name: str) -> None:
    with pytest.raises(ClientError, match="only for a standard queue"):
        sqs.create_queue(
            QueueName=f"{name}.fifo",
            Attributes={"FifoQueue": "true", "MaximumInFlightPerGroup": "1"},
        )


def test_delete_makes_room_for_a_waiting_receiver(sqs: Any, queue: str) -> None:
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"MaximumInFlight": "1"})
    for body in ("a", "b"):
        sqs.send_message(QueueUrl=queue, MessageBody=body)
    (first,) = received(sqs, queue)
    assert received(sqs, queue, wait=1) == []

    sqs.delete_message(QueueUrl=queue, ReceiptHandle=first["ReceiptHandle"])

    assert [each["Body"] for each in received(sqs, queue, wait=20)] == ["b"]


def test_priorities_come_first_and_a_wrong_one_is_refused(sqs: Any, queue: str) -> None:
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"PriorityMode": "strict"})

    def send(priority: str) -> None:
        attribute = {"SkipMQ.Priority": {"DataType": "Number", "StringValue": priority}}
        sqs.send_message(QueueUrl=queue, MessageBody=priority, MessageAttributes=attribute)

    for each in "194":
        send(each)
    with pytest.raises(ClientError, match="A priority is a Number from 0 to 9"):
        send("10")

    assert [received(sqs, queue, most=1)[0]["Body"] for _ in range(3)] == ["9", "4", "1"]

    entries = [
        {
            "Id": priority,
            "MessageBody": priority,
            "MessageAttributes": {
                "SkipMQ.Priority": {"DataType": "Number", "StringValue": priority}
            },
        }
        for priority in ("2", "11", "8")
    ]
    answer = sqs.send_message_batch(QueueUrl=queue, Entries=entries)
    assert [each["Id"] for each in answer["Failed"]] == ["11"]
    assert [received(sqs, queue, most=1)[0]["Body"] for _ in range(2)] == ["8", "2"]


def test_group_is_paused_listed_and_resumed(
    sqs: Any, queue: str, ask: Callable[..., dict[str, Any]]
) -> None:
    for group in ("a", "b"):
        sqs.send_message(QueueUrl=queue, MessageBody=group, MessageGroupId=group)
    ask("PauseMessageGroup", QueueUrl=queue, MessageGroupId="a", PausedUntil=32_472_144_000)

    got = [each["Body"] for each in received(sqs, queue)]
    (paused,) = ask("ListPausedMessageGroups", QueueUrl=queue)["Groups"]
    resumed = ask("ResumeMessageGroup", QueueUrl=queue, MessageGroupId="a")

    assert got == ["b"]
    assert (paused["MessageGroupId"], resumed) == ("a", {"Resumed": True})
    assert [each["Body"] for each in received(sqs, queue, wait=5)] == ["a"]
    assert ask("ResumeMessageGroup", QueueUrl=queue, MessageGroupId="a") == {"Resumed": False}


def test_group_is_paused_until_a_time_that_is_to_come(
    queue: str, ask: Callable[..., dict[str, Any]]
) -> None:
    with pytest.raises(Exception, match="paused until a time that is to come"):
        ask("PauseMessageGroup", QueueUrl=queue, MessageGroupId="a", PausedUntil=1)
    ask("PauseMessageGroup", QueueUrl=queue, MessageGroupId="g" * 128)
    with pytest.raises(Exception, match="MessageGroupId"):
        ask("PauseMessageGroup", QueueUrl=queue, MessageGroupId="g" * 129)
