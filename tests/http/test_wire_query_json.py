"""The Query wire for clients that accept JSON first, as integrations of API Gateway do."""

import json
from typing import Any
from urllib.parse import urlencode

import pytest

from skipmq.protocol.requests import AttributeValue
from support.digests import of_text
from support.http import ACCOUNT, NodeProcess
from support.wire import FORM, exchange

ASKED = FORM | {"Accept": "application/json"}


@pytest.fixture
def sqs(clients: dict[str, Any]) -> Any:
    return clients["query"]


def answer(broker: NodeProcess, action: str, **fields: str) -> dict[str, Any]:
    """Return the document that answers an action, without what all have in common."""
    form = urlencode({"Action": action, **fields}).encode()
    found = exchange(broker.port, form, ASKED)
    assert (found.status, found.headers["Content-Type"]) == (200, "application/json"), found.body
    document = json.loads(found.body)
    content: dict[str, Any] = document.pop(f"{action}Response")
    assert document == {}
    metadata = content.pop("ResponseMetadata")
    assert metadata == {"RequestId": found.headers["x-amzn-RequestId"]}
    return content


def test_result_has_the_members_of_the_action(broker: NodeProcess, queue: str, name: str) -> None:
    sent = answer(broker, "SendMessage", QueueUrl=queue, MessageBody="a <&> \u00df")

    result = sent["SendMessageResult"]
    assert set(sent) == {"SendMessageResult"}
    assert len(result.pop("MessageId")) == 36
    assert result == {
        "MD5OfMessageBody": of_text("a <&> \u00df"),
        "MD5OfMessageAttributes": None,
        "MD5OfMessageSystemAttributes": None,
        "SequenceNumber": None,
    }
    assert answer(broker, "GetQueueUrl", QueueName=name) == {
        "GetQueueUrlResult": {"QueueUrl": queue}
    }


def test_list_of_received_messages_is_named_messages(
    broker: NodeProcess, sqs: Any, queue: str
) -> None:
    empty = answer(broker, "ReceiveMessage", QueueUrl=queue)
    sent = sqs.send_message(
        QueueUrl=queue,
        MessageBody="hello",
        MessageAttributes={
            "a": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
            "b": {"DataType": "String", "StringValue": "x"},
        },
    )

    asked = {"AttributeName.1": "ApproximateReceiveCount", "MessageAttributeName.1": "All"}
    found = answer(broker, "ReceiveMessage", QueueUrl=queue, VisibilityTimeout="0", **asked)
    bare = answer(broker, "ReceiveMessage", QueueUrl=queue)

    assert empty == {"ReceiveMessageResult": {"messages": None}}
    (message,) = found["ReceiveMessageResult"]["messages"]
    assert message.pop("ReceiptHandle")
    value = dict.fromkeys(AttributeValue.__struct_fields__)
    assert message == {
        "MessageId": sent["MessageId"],
        "Body": "hello",
        "MD5OfBody": sent["MD5OfMessageBody"],
        "MD5OfMessageAttributes": sent["MD5OfMessageAttributes"],
        "Attributes": [{"Name": "ApproximateReceiveCount", "Value": "1"}],
        "MessageAttributes": [
            {"Name": "a", "Value": value | {"DataType": "Binary", "BinaryValue": "AP8="}},
            {"Name": "b", "Value": value | {"DataType": "String", "StringValue": "x"}},
        ],
    }
    (message,) = bare["ReceiveMessageResult"]["messages"]
    assert message["Body"] == "hello"
    assert message["Attributes"] is message["MessageAttributes"] is None


def test_list_of_queues_has_its_urls(broker: NodeProcess, queue: str, name: str) -> None:
    found = answer(broker, "ListQueues", QueueNamePrefix=name, MaxResults="1")
    nothing = answer(broker, "ListQueues", QueueNamePrefix="none")

    assert found["ListQueuesResult"]["queueUrls"] == [queue]
    assert nothing == {"ListQueuesResult": {"queueUrls": None, "NextToken": None}}


def test_map_is_a_list_of_entries(broker: NodeProcess, sqs: Any, queue: str) -> None:
    sqs.tag_queue(QueueUrl=queue, Tags={"a": "b"})

    tags = answer(broker, "ListQueueTags", QueueUrl=queue)
    asked = {"AttributeName.1": "DelaySeconds"}
    attributes = answer(broker, "GetQueueAttributes", QueueUrl=queue, **asked)

    assert tags == {"ListQueueTagsResult": {"Tags": [{"Key": "a", "Value": "b"}]}}
    assert attributes == {
        "GetQueueAttributesResult": {"Attributes": [{"Name": "DelaySeconds", "Value": "0"}]}
    }


def test_action_without_result_has_the_metadata_alone(broker: NodeProcess, queue: str) -> None:
    assert answer(broker, "PurgeQueue", QueueUrl=queue) == {}


def test_batch_has_what_failed_with_its_fault(broker: NodeProcess, queue: str) -> None:
    entry = {"DeleteMessageBatchRequestEntry.1.Id": "a"}
    entry["DeleteMessageBatchRequestEntry.1.ReceiptHandle"] = "x"

    found = answer(broker, "DeleteMessageBatch", QueueUrl=queue, **entry)

    result = found["DeleteMessageBatchResult"]
    assert result["Successful"] is None
    assert [(each["Id"], each["SenderFault"]) for each in result["Failed"]] == [("a", True)]


@pytest.mark.parametrize(
    ("form", "status", "code", "message"),
    [
        ("Action=Fly", 400, "InvalidAction", "The action Fly is not valid for this endpoint."),
        (
            "Action=GetQueueUrl&QueueName=nowhere",
            400,
            "AWS.SimpleQueueService.NonExistentQueue",
            "The specified queue does not exist for this wsdl version.",
        ),
        (
            "Action=ListMessageMoveTasks&SourceArn=arn:aws:sqs:us-east-1:000000000000:nowhere",
            404,
            "ResourceNotFoundException",
            "The resource that you specified for the SourceArn parameter doesn't exist.",
        ),
    ],
)
def test_error_is_told_in_json_too(
    broker: NodeProcess, form: str, status: int, code: str, message: str
) -> None:
    found = exchange(broker.port, form.encode(), ASKED)

    assert (found.status, found.headers["Content-Type"]) == (status, "application/json")
    assert json.loads(found.body) == {
        "Error": {"Type": "Sender", "Code": code, "Message": message, "Detail": None},
        "RequestId": found.headers["x-amzn-RequestId"],
    }


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("application/json", "application/json"),
        ("Application/JSON; charset=utf-8", "application/json"),
        ("application/json, text/plain, */*", "application/json"),
        ("text/html, application/json", "text/xml"),
        ("application/jsonlines", "text/xml"),
        ("*/*", "text/xml"),
        ("", "text/xml"),
        ("text/xml", "text/xml"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_type_that_is_accepted_first_decides(
    broker: NodeProcess, queue: str, name: str, accept: str, kind: str, method: str
) -> None:
    del queue
    path = f"/{ACCOUNT}/{name}?Action=GetQueueAttributes"

    found = exchange(broker.port, b"", {"Accept": accept}, path=path, method=method)

    assert (found.status, found.headers["Content-Type"]) == (200, kind)


def test_accept_changes_nothing_on_the_json_wire(broker: NodeProcess) -> None:
    headers = {"X-Amz-Target": "AmazonSQS.ListQueues", "Accept": "application/json"}

    found = exchange(broker.port, b'{"QueueNamePrefix": "none"}', headers)

    assert (found.headers["Content-Type"], found.body) == ("application/x-amz-json-1.0", "{}")
