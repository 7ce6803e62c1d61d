"""What SendMessage, ReceiveMessage, DeleteMessage and ChangeMessageVisibility do."""

import json
from itertools import product
from typing import Any

import pytest
from botocore.exceptions import ClientError

from support.digests import of_attributes, of_text
from support.http import ACCOUNT

TRACE = "Root=1-67891233-abcdef012345678912345678"
SYSTEM = {"AWSTraceHeader": {"DataType": "String", "StringValue": TRACE}}
ATTRIBUTES = {
    "text": {"DataType": "String.label", "StringValue": 'ß <&>"'},
    "number": {"DataType": "Number", "StringValue": "-1.5"},
    "bytes": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
}
LISTS: list[dict[str, Any]] = [
    {"DataType": "String", "StringListValues": ["a", "b"]},
    {"DataType": "Binary", "BinaryListValues": [b"a", b"b"]},
]


def refused(caught: pytest.ExceptionInfo[ClientError]) -> tuple[str, str]:
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


def test_send_takes_every_member_and_answers_with_digests(sqs: Any, queue: str) -> None:
    sent = sqs.send_message(
        QueueUrl=queue,
        MessageBody='ß <&>"',
        DelaySeconds=0,
        MessageAttributes=ATTRIBUTES,
        MessageSystemAttributes=SYSTEM,
        MessageGroupId="tenant",
    )

    (message,) = sqs.receive_message(QueueUrl=queue)["Messages"]
    assert sent["MessageId"] == message["MessageId"]
    assert sent["MD5OfMessageBody"] == of_text('ß <&>"')
    assert sent["MD5OfMessageAttributes"] == of_attributes(ATTRIBUTES)
    assert sent["MD5OfMessageSystemAttributes"] == of_attributes(SYSTEM)


def test_send_with_delay_hides_the_message(sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="later", DelaySeconds=900)

    assert "Messages" not in sqs.receive_message(QueueUrl=queue)


def test_send_refuses_values_that_are_lists(sqs: Any, queue: str) -> None:
    members = {"MessageAttributes": "list", "MessageSystemAttributes": "AWSTraceHeader"}
    for (member, name), value in product(members.items(), LISTS):
        with pytest.raises(sqs.exceptions.UnsupportedOperation) as caught:
            sqs.send_message(QueueUrl=queue, MessageBody="x", **{member: {name: value}})
        assert refused(caught)[1] == (
            "Message attribute list values in SendMessage operation are not supported."
        )


def test_send_refuses_a_trace_header_that_is_no_text(sqs: Any, queue: str) -> None:
    header = {"AWSTraceHeader": {"DataType": "Binary", "BinaryValue": b"x"}}

    with pytest.raises(ClientError) as caught:
        sqs.send_message(QueueUrl=queue, MessageBody="x", MessageSystemAttributes=header)

    assert refused(caught)[0] == "InvalidParameterValue"


def test_send_refuses_characters_that_xml_has_not(sqs: Any, queue: str) -> None:
    with pytest.raises(sqs.exceptions.InvalidMessageContents):
        sqs.send_message(QueueUrl=queue, MessageBody="a\x01")

    assert "Messages" not in sqs.receive_message(QueueUrl=queue)


def test_receive_takes_every_member_and_gives_the_whole_message(sqs: Any, queue: str) -> None:
    for n in range(3):
        sqs.send_message(
            QueueUrl=queue,
            MessageBody=str(n),
            MessageAttributes=ATTRIBUTES | {"unwanted": ATTRIBUTES["text"]},
            MessageSystemAttributes=SYSTEM,
            MessageGroupId="tenant",
        )

    messages = sqs.receive_message(
        QueueUrl=queue,
        MessageSystemAttributeNames=["All"],
        MessageAttributeNames=list(ATTRIBUTES),
        MaxNumberOfMessages=2,
        VisibilityTimeout=600,
        WaitTimeSeconds=1,
    )["Messages"]

    assert len(messages) == 2
    for message in messages:
        assert message["MessageId"]
        assert message["ReceiptHandle"]
        assert message["MD5OfBody"] == of_text(message["Body"])
        assert message["MessageAttributes"] == ATTRIBUTES
        assert message["MD5OfMessageAttributes"] == of_attributes(ATTRIBUTES)
        system = dict(message["Attributes"])
        sent_at, first_at = (
            int(system.pop(key)) for key in ("SentTimestamp", "ApproximateFirstReceiveTimestamp")
        )
        assert 1.6e12 < sent_at <= first_at
        assert system == {
            "SenderId": ACCOUNT,
            "ApproximateReceiveCount": "1",
            "AWSTraceHeader": TRACE,
            "MessageGroupId": "tenant",
        }


def test_receive_gives_each_system_attribute_by_its_name(sqs: Any, queue: str) -> None:
    names = ["SenderId", "SentTimestamp", "ApproximateReceiveCount", "AWSTraceHeader"]
    names += ["ApproximateFirstReceiveTimestamp", "MessageGroupId"]
    absent = ["SequenceNumber", "MessageDeduplicationId", "DeadLetterQueueSourceArn"]
    sqs.send_message(
        QueueUrl=queue, MessageBody="x", MessageSystemAttributes=SYSTEM, MessageGroupId="tenant"
    )

    def shown(member: str, *wanted: str) -> set[str]:
        (message,) = sqs.receive_message(
            QueueUrl=queue, VisibilityTimeout=0, **{member: list(wanted)}
        )["Messages"]
        return set(message.get("Attributes", {}))

    for member in ("MessageSystemAttributeNames", "AttributeNames"):
        assert [shown(member, name) for name in names] == [{name} for name in names]
        assert shown(member, *names) == shown(member, "All") == set(names)
        assert shown(member, *absent) == set()


def test_receive_of_a_dead_letter_names_its_source(sqs: Any, queue: str, name: str) -> None:
    arn = f"arn:aws:sqs:us-east-1:{ACCOUNT}:{name}"
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    source = sqs.create_queue(QueueName=f"{name}-source", Attributes={"RedrivePolicy": policy})
    sqs.send_message(QueueUrl=source["QueueUrl"], MessageBody="poison")
    for _ in range(2):
        sqs.receive_message(QueueUrl=source["QueueUrl"], VisibilityTimeout=0)

    (letter,) = sqs.receive_message(
        QueueUrl=queue, MessageSystemAttributeNames=["DeadLetterQueueSourceArn"]
    )["Messages"]

    assert letter["Attributes"] == {"DeadLetterQueueSourceArn": f"{arn}-source"}


def test_change_hides_and_shows_and_delete_ends_a_message(sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    (message,) = sqs.receive_message(QueueUrl=queue)["Messages"]
    handle = message["ReceiptHandle"]

    sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=handle, VisibilityTimeout=600)
    hidden = sqs.receive_message(QueueUrl=queue)
    sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=handle, VisibilityTimeout=0)
    (again,) = sqs.receive_message(QueueUrl=queue, VisibilityTimeout=0)["Messages"]
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=again["ReceiptHandle"])

    assert "Messages" not in hidden
    assert again["MessageId"] == message["MessageId"]
    assert "Messages" not in sqs.receive_message(QueueUrl=queue)


def test_handle_that_is_none_is_refused(sqs: Any, queue: str) -> None:
    for call in (
        lambda: sqs.delete_message(QueueUrl=queue, ReceiptHandle="none"),
        lambda: sqs.change_message_visibility(
            QueueUrl=queue, ReceiptHandle="none", VisibilityTimeout=1
        ),
    ):
        with pytest.raises(sqs.exceptions.ReceiptHandleIsInvalid) as caught:
            call()
        assert (
            refused(caught)[1] == 'The input receipt handle "none" is not a valid receipt handle.'
        )
