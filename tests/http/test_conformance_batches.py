"""What the three batch actions do."""

from itertools import product
from typing import Any

import pytest
from botocore.exceptions import ClientError

from support.conformance import actions_of
from support.digests import of_attributes, of_text

MOST = 1_048_576
TRACE = {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-5759e988-bd862e3fe1be46"}}
ATTRIBUTES = {
    "text": {"DataType": "String", "StringValue": "a"},
    "bytes": {"DataType": "Binary", "BinaryValue": b"b"},
}
LISTS: list[dict[str, Any]] = [
    {"DataType": "String", "StringListValues": ["a"]},
    {"DataType": "Binary", "BinaryListValues": [b"a"]},
]
ENTRIES: dict[str, dict[str, Any]] = {
    "SendMessageBatch": {"MessageBody": "x"},
    "DeleteMessageBatch": {"ReceiptHandle": "x"},
    "ChangeMessageVisibilityBatch": {"ReceiptHandle": "x", "VisibilityTimeout": 1},
}


def run(sqs: Any, action: str, queue: str, entries: list[dict[str, Any]]) -> dict[str, Any]:
    method = {
        "SendMessageBatch": sqs.send_message_batch,
        "DeleteMessageBatch": sqs.delete_message_batch,
        "ChangeMessageVisibilityBatch": sqs.change_message_visibility_batch,
    }[action]
    answer: dict[str, Any] = method(QueueUrl=queue, Entries=entries)
    return answer


def refused(sqs: Any, action: str, queue: str, *ids: str) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        run(sqs, action, queue, [{"Id": id_} | ENTRIES[action] for id_ in ids])
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


def test_send_batch_stores_the_good_and_tells_of_the_bad(sqs: Any, queue: str) -> None:
    good = {
        "Id": "good",
        "MessageBody": "body",
        "DelaySeconds": 0,
        "MessageAttributes": ATTRIBUTES,
        "MessageSystemAttributes": TRACE,
        "MessageGroupId": "tenant",
    }
    bad = {"Id": "bad", "MessageBody": "x", "DelaySeconds": 901}

    answer = sqs.send_message_batch(QueueUrl=queue, Entries=[good, bad])

    (message,) = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]
    assert answer["Successful"] == [
        {
            "Id": "good",
            "MessageId": message["MessageId"],
            "MD5OfMessageBody": of_text("body"),
            "MD5OfMessageAttributes": of_attributes(ATTRIBUTES),
            "MD5OfMessageSystemAttributes": of_attributes(TRACE),
        }
    ]
    assert answer["Failed"] == [
        {
            "Id": "bad",
            "SenderFault": True,
            "Code": "InvalidParameterValue",
            "Message": "Value 901 for parameter DelaySeconds is invalid."
            " Reason: DelaySeconds must be >= 0 and <= 900.",
        }
    ]


def test_send_batch_refuses_values_that_are_lists(sqs: Any, queue: str) -> None:
    members = {"MessageAttributes": "list", "MessageSystemAttributes": "AWSTraceHeader"}
    good = {"Id": "good", "MessageBody": "x"}
    for (member, name), value in product(members.items(), LISTS):
        bad = {"Id": "bad", "MessageBody": "x", member: {name: value}}
        with pytest.raises(sqs.exceptions.UnsupportedOperation) as caught:
            sqs.send_message_batch(QueueUrl=queue, Entries=[good, bad])
        assert caught.value.response["Error"]["Message"] == (
            "Message attribute list values in SendMessageBatch operation are not supported."
        )
    assert "Messages" not in sqs.receive_message(QueueUrl=queue)


def test_send_batch_refuses_a_trace_header_that_is_no_text(sqs: Any, queue: str) -> None:
    header = {"AWSTraceHeader": {"DataType": "Binary", "BinaryValue": b"x"}}
    entry = {"Id": "bad", "MessageBody": "x", "MessageSystemAttributes": header}

    answer = sqs.send_message_batch(QueueUrl=queue, Entries=[entry])

    assert [each["Code"] for each in answer["Failed"]] == ["InvalidParameterValue"]


def test_delete_batch_deletes_the_good_and_tells_of_the_bad(sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    (message,) = sqs.receive_message(QueueUrl=queue, VisibilityTimeout=0)["Messages"]

    answer = sqs.delete_message_batch(
        QueueUrl=queue,
        Entries=[
            {"Id": "good", "ReceiptHandle": message["ReceiptHandle"]},
            {"Id": "bad", "ReceiptHandle": "none"},
        ],
    )

    assert answer["Successful"] == [{"Id": "good"}]
    assert answer["Failed"] == [
        {
            "Id": "bad",
            "SenderFault": True,
            "Code": "ReceiptHandleIsInvalid",
            "Message": 'The input receipt handle "none" is not a valid receipt handle.',
        }
    ]
    assert "Messages" not in sqs.receive_message(QueueUrl=queue)


def test_change_batch_changes_the_good_and_tells_of_the_bad(sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    (message,) = sqs.receive_message(QueueUrl=queue)["Messages"]

    answer = sqs.change_message_visibility_batch(
        QueueUrl=queue,
        Entries=[
            {"Id": "good", "ReceiptHandle": message["ReceiptHandle"], "VisibilityTimeout": 0},
            {"Id": "bad", "ReceiptHandle": message["ReceiptHandle"], "VisibilityTimeout": 43201},
        ],
    )

    assert answer["Successful"] == [{"Id": "good"}]
    assert answer["Failed"] == [
        {
            "Id": "bad",
            "SenderFault": True,
            "Code": "InvalidParameterValue",
            "Message": "Value 43201 for parameter VisibilityTimeout is invalid."
            " Reason: VisibilityTimeout must be >= 0 and <= 43200.",
        }
    ]
    assert sqs.receive_message(QueueUrl=queue)["Messages"]


@pytest.mark.parametrize("action", actions_of("test_batch_that_is_malformed_is_refused_whole"))
def test_batch_that_is_malformed_is_refused_whole(sqs: Any, queue: str, action: str) -> None:
    start = "AWS.SimpleQueueService."
    assert refused(sqs, action, queue) == (
        f"{start}EmptyBatchRequest",
        f"There should be at least one {action}RequestEntry in the request.",
    )
    assert refused(sqs, action, queue, *map(str, range(11))) == (
        f"{start}TooManyEntriesInBatchRequest",
        "Maximum number of entries per request are 10. You have sent 11.",
    )
    assert refused(sqs, action, queue, "a", "a") == (
        f"{start}BatchEntryIdsNotDistinct",
        "Id a repeated.",
    )
    assert refused(sqs, action, queue, "a", "a b") == (
        f"{start}InvalidBatchEntryId",
        "A batch entry id can only contain alphanumeric characters, hyphens and underscores."
        " It can be at most 80 letters long.",
    )


def test_send_batch_that_is_too_long_in_all_is_refused_whole(sqs: Any, queue: str) -> None:
    entries = [{"Id": id_, "MessageBody": "x" * (MOST // 2 + n)} for n, id_ in enumerate("ab")]

    with pytest.raises(sqs.exceptions.BatchRequestTooLong) as caught:
        sqs.send_message_batch(QueueUrl=queue, Entries=entries)

    assert caught.value.response["Error"]["Message"] == (
        "Batch requests cannot be longer than 1048576 bytes. You have sent 1048577 bytes."
    )
    assert "Messages" not in sqs.receive_message(QueueUrl=queue)
