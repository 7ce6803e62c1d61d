"""What FIFO queues add: their attributes, groups, deduplication and sequence numbers.

Source: the documentation in AWS's service model, and SQS Developer Guide, "Amazon SQS FIFO queues".
"""

from hashlib import sha256
from typing import Any

import pytest
from botocore.exceptions import ClientError

DEFAULTS = {
    "FifoQueue": "true",
    "ContentBasedDeduplication": "false",
    "DeduplicationScope": "queue",
    "FifoThroughputLimit": "perQueue",
}
OTHERS = {
    "ContentBasedDeduplication": "true",
    "DeduplicationScope": "messageGroup",
    "FifoThroughputLimit": "perMessageGroupId",
}
NAMES = ["SequenceNumber", "MessageDeduplicationId", "MessageGroupId"]


@pytest.fixture
def fifo(sqs: Any, name: str) -> str:
    """Give the URL of a new FIFO queue."""
    return make(sqs, name)


def make(sqs: Any, name: str, **attributes: str) -> str:
    given = {"FifoQueue": "true"} | attributes
    return str(sqs.create_queue(QueueName=f"{name}.fifo", Attributes=given)["QueueUrl"])


def send(sqs: Any, queue: str, body: str, group: str = "g", **options: Any) -> dict[str, Any]:
    given = {"MessageDeduplicationId": body} | options
    sent: dict[str, Any] = sqs.send_message(
        QueueUrl=queue, MessageBody=body, MessageGroupId=group, **given
    )
    return sent


def receive(sqs: Any, queue: str, **options: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = sqs.receive_message(
        QueueUrl=queue, MaxNumberOfMessages=10, **options
    ).get("Messages", [])
    return found


def bodies(messages: list[dict[str, Any]]) -> list[str]:
    return [message["Body"] for message in messages]


def refused(caught: pytest.ExceptionInfo[ClientError]) -> tuple[str, str]:
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


def test_fifo_queue_is_made_with_its_attributes(sqs: Any, name: str) -> None:
    url = make(sqs, name, **OTHERS)

    shown = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=list(DEFAULTS))["Attributes"]
    everything = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert url.endswith(f"/{name}.fifo")
    assert shown == DEFAULTS | OTHERS
    assert shown.items() <= everything.items()
    assert everything["QueueArn"].endswith(f":{name}.fifo")


def test_fifo_queue_has_defaults_that_can_be_changed(sqs: Any, fifo: str) -> None:
    def shown() -> dict[str, str]:
        answer = sqs.get_queue_attributes(QueueUrl=fifo, AttributeNames=list(DEFAULTS))
        found: dict[str, str] = answer["Attributes"]
        return found

    before = shown()
    sqs.set_queue_attributes(QueueUrl=fifo, Attributes=OTHERS)

    assert before == DEFAULTS
    assert shown() == DEFAULTS | OTHERS


def test_fifo_queue_cannot_become_a_standard_one(sqs: Any, fifo: str) -> None:
    with pytest.raises(ClientError) as caught:
        sqs.set_queue_attributes(QueueUrl=fifo, Attributes={"FifoQueue": "false"})

    assert refused(caught) == (
        "InvalidAttributeValue",
        "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported.",
    )


@pytest.mark.parametrize(("suffix", "attributes"), [(".fifo", {}), ("", {"FifoQueue": "true"})])
def test_fifo_queue_needs_both_its_suffix_and_its_attribute(
    sqs: Any, name: str, suffix: str, attributes: dict[str, str]
) -> None:
    with pytest.raises(ClientError) as caught:
        sqs.create_queue(QueueName=name + suffix, Attributes=attributes)

    assert refused(caught)[0] == "InvalidParameterValue"


def test_send_gives_numbers_that_grow_and_the_receiver_sees_them(sqs: Any, fifo: str) -> None:
    sent = [send(sqs, fifo, f"body-{n}") for n in range(3)]

    messages = receive(sqs, fifo, MessageSystemAttributeNames=NAMES)

    numbers = [each["SequenceNumber"] for each in sent]
    assert all(number.isdecimal() and len(number) <= 20 for number in numbers)
    assert sorted(set(map(int, numbers))) == list(map(int, numbers))
    assert [each["MessageId"] for each in messages] == [each["MessageId"] for each in sent]
    assert [each["Attributes"] for each in messages] == [
        {
            "SequenceNumber": number,
            "MessageDeduplicationId": f"body-{n}",
            "MessageGroupId": "g",
        }
        for n, number in enumerate(numbers)
    ]


def test_receive_shows_the_attributes_of_fifo_among_all(sqs: Any, fifo: str) -> None:
    send(sqs, fifo, "x")

    (message,) = receive(sqs, fifo, AttributeNames=["All"])

    assert set(NAMES) <= set(message["Attributes"])


def test_send_batch_gives_numbers_that_grow(sqs: Any, fifo: str) -> None:
    answer = sqs.send_message_batch(
        QueueUrl=fifo,
        Entries=[
            {
                "Id": str(n),
                "MessageBody": f"body-{n}",
                "MessageGroupId": "g",
                "MessageDeduplicationId": f"once-{n}",
            }
            for n in range(3)
        ],
    )

    messages = receive(sqs, fifo, MessageSystemAttributeNames=NAMES)
    numbers = [each["SequenceNumber"] for each in answer["Successful"]]
    assert sorted(set(map(int, numbers))) == list(map(int, numbers))
    assert [each["Attributes"]["SequenceNumber"] for each in messages] == numbers
    assert [each["Attributes"]["MessageDeduplicationId"] for each in messages] == [
        f"once-{n}" for n in range(3)
    ]


def test_duplicate_is_answered_as_the_original_and_not_stored(sqs: Any, fifo: str) -> None:
    first = send(sqs, fifo, "body", MessageDeduplicationId="once")
    (message,) = receive(sqs, fifo)
    sqs.delete_message(QueueUrl=fifo, ReceiptHandle=message["ReceiptHandle"])

    second = send(sqs, fifo, "other", MessageDeduplicationId="once")

    assert second["MessageId"] == first["MessageId"]
    assert second["SequenceNumber"] == first["SequenceNumber"]
    assert receive(sqs, fifo) == []


def test_content_makes_the_deduplication_id_where_none_is_given(sqs: Any, name: str) -> None:
    queue = make(sqs, name, ContentBasedDeduplication="true")
    for _ in range(2):
        sqs.send_message(QueueUrl=queue, MessageBody="body", MessageGroupId="g")
    hashed = sha256(b"body").hexdigest()
    send(sqs, queue, "third", MessageDeduplicationId=hashed)

    (message,) = receive(sqs, queue, MessageSystemAttributeNames=["MessageDeduplicationId"])

    assert message["Body"] == "body"
    assert message["Attributes"] == {"MessageDeduplicationId": hashed}


def test_group_comes_in_order_and_waits_for_its_first(sqs: Any, fifo: str) -> None:
    send(sqs, fifo, "a1", group="a")
    send(sqs, fifo, "a2", group="a")

    (first,) = sqs.receive_message(QueueUrl=fifo)["Messages"]
    send(sqs, fifo, "b1", group="b")
    meanwhile = receive(sqs, fifo, MessageSystemAttributeNames=["MessageGroupId"])
    sqs.delete_message(QueueUrl=fifo, ReceiptHandle=first["ReceiptHandle"])
    afterwards = receive(sqs, fifo)

    assert first["Body"] == "a1"
    assert bodies(meanwhile) == ["b1"]
    assert bodies(afterwards) == ["a2"]


def test_receive_with_an_attempt_id_gives_the_same_again(sqs: Any, fifo: str) -> None:
    for n in range(3):
        send(sqs, fifo, f"body-{n}")

    first = receive(sqs, fifo, ReceiveRequestAttemptId="attempt-1")
    again = receive(sqs, fifo, ReceiveRequestAttemptId="attempt-1")
    other = receive(sqs, fifo, ReceiveRequestAttemptId="attempt-2")

    def handles(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
        return [(each["MessageId"], each["ReceiptHandle"]) for each in messages]

    assert len(first) == 3
    assert handles(again) == handles(first)
    assert other == []


def test_change_of_a_visible_message_is_refused(sqs: Any, fifo: str) -> None:
    send(sqs, fifo, "body")
    (message,) = receive(sqs, fifo, VisibilityTimeout=0)

    with pytest.raises(sqs.exceptions.MessageNotInflight):
        sqs.change_message_visibility(
            QueueUrl=fifo, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=1
        )
    assert bodies(receive(sqs, fifo)) == ["body"]


def test_expired_handle_deletes_nothing(sqs: Any, fifo: str) -> None:
    send(sqs, fifo, "body")
    (message,) = receive(sqs, fifo, VisibilityTimeout=0)
    handle = message["ReceiptHandle"]

    with pytest.raises(ClientError) as caught:
        sqs.delete_message(QueueUrl=fifo, ReceiptHandle=handle)

    assert refused(caught) == (
        "InvalidParameterValue",
        f"Value {handle} for parameter ReceiptHandle is invalid."
        " Reason: The receipt handle has expired.",
    )
    assert bodies(receive(sqs, fifo)) == ["body"]


@pytest.mark.parametrize(
    ("parameters", "code", "text"),
    [
        (
            {"MessageDeduplicationId": "x"},
            "MissingParameter",
            "The request must contain the parameter MessageGroupId.",
        ),
        (
            {"MessageGroupId": "g"},
            "InvalidParameterValue",
            "The queue should either have ContentBasedDeduplication enabled or"
            " MessageDeduplicationId provided explicitly",
        ),
        (
            {"MessageGroupId": "g", "MessageDeduplicationId": "x", "DelaySeconds": 2},
            "InvalidParameterValue",
            "Value 2 for parameter DelaySeconds is invalid. Reason: The request include"
            " parameter that is not valid for this queue type.",
        ),
        (
            {"MessageGroupId": "a b", "MessageDeduplicationId": "x"},
            "InvalidParameterValue",
            "Value a b for parameter MessageGroupId is invalid. Reason: MessageGroupId can only"
            " include alphanumeric and punctuation characters. 1 to 128 in length.",
        ),
        (
            {"MessageGroupId": "g", "MessageDeduplicationId": "x" * 129},
            "InvalidParameterValue",
            f"Value {'x' * 129} for parameter MessageDeduplicationId is invalid. Reason:"
            " MessageDeduplicationId can only include alphanumeric and punctuation characters."
            " 1 to 128 in length.",
        ),
    ],
    ids=["no group", "no deduplication id", "delay", "group", "deduplication id"],
)
def test_send_that_is_not_for_fifo_is_refused(
    sqs: Any, fifo: str, parameters: dict[str, Any], code: str, text: str
) -> None:
    with pytest.raises(ClientError) as caught:
        sqs.send_message(QueueUrl=fifo, MessageBody="x", **parameters)

    assert refused(caught) == (code, text)
    assert receive(sqs, fifo) == []
