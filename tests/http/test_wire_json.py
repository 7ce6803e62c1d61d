"""What the AWS JSON wire takes and what it refuses."""

import json
from typing import Any

import pytest

from support.http import ACCOUNT, NodeProcess
from support.wire import JSON, exchange, target, told

ARN = f"arn:aws:sqs:us-east-1:{ACCOUNT}:nowhere"


@pytest.fixture
def sqs(clients: dict[str, Any]) -> Any:
    return clients["json"]


@pytest.mark.parametrize(
    "content_type",
    [None, "", "application/json", "text/html", "application/x-amz-json-1.1", "\xff\xfe"],
)
def test_target_makes_a_request_json_whatever_its_content_type(
    broker: NodeProcess, content_type: str | None
) -> None:
    headers = {"X-Amz-Target": "AmazonSQS.GetQueueUrl"}
    if content_type is not None:
        headers["Content-Type"] = content_type

    answer = exchange(broker.port, b'{"QueueName": "nowhere"}', headers)

    assert told(answer) == "QueueDoesNotExist"
    assert answer.headers["Content-Type"] == "application/x-amz-json-1.0"


def test_name_that_stands_twice_counts_the_second_time(broker: NodeProcess, name: str) -> None:
    body = f'{{"QueueName": "not a name", "QueueName": "{name}"}}'.encode()

    answer = exchange(broker.port, body, target("CreateQueue"))

    assert json.loads(answer.body)["QueueUrl"].endswith(name)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"Action=ListQueues",
        b'{"QueueNamePrefix": "a"',
        b'{"QueueNamePrefix": "a",}',
        b"{'QueueNamePrefix': 'a'}",
        b"{} {}",
        b"\xef\xbb\xbf{}",
        "{}".encode("utf-16"),
        b'{"QueueNamePrefix": "\xff"}',
        b'{"QueueNamePrefix": "\\ud800"}',
        b'{"QueueNamePrefix": "a\0"}',
        b'{"QueueNamePrefix": "a\n"}',
        b'{"MaxResults": 1e400}',
        b'{"MaxResults": 01}',
        b"null",
        b"1",
        b'"{}"',
        b"[{}]",
        pytest.param(b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", id="deep list"),
        pytest.param(b'{"x": ' * 50_000 + b"1" + b"}" * 50_000, id="deep object"),
    ],
)
def test_body_that_is_no_json_object_is_refused(broker: NodeProcess, body: bytes) -> None:
    assert told(exchange(broker.port, body, target("ListQueues"))) == "SerializationException"


@pytest.mark.parametrize(
    ("action", "body"),
    [
        ("ListQueues", {"MaxResults": "1"}),
        ("ListQueues", {"MaxResults": 1.0}),
        ("ListQueues", {"MaxResults": True}),
        ("ListQueues", {"MaxResults": 2**31}),
        ("ListQueues", {"QueueNamePrefix": 1}),
        ("ListQueues", {"QueueNamePrefix": False}),
        ("ListQueues", {"QueueNamePrefix": ["a"]}),
        ("ListQueues", {"QueueNamePrefix": {"a": "b"}}),
        ("CreateQueue", {"QueueName": "a", "Attributes": {"DelaySeconds": 1}}),
        ("CreateQueue", {"QueueName": "a", "Attributes": [{"Name": "DelaySeconds"}]}),
        ("CreateQueue", {"QueueName": "a", "tags": "a"}),
        ("GetQueueAttributes", {"QueueUrl": "/a/b", "AttributeNames": "All"}),
        ("GetQueueAttributes", {"QueueUrl": "/a/b", "AttributeNames": [1]}),
        ("GetQueueAttributes", {"QueueUrl": "/a/b", "AttributeNames": [None]}),
        ("SendMessageBatch", {"QueueUrl": "/a/b", "Entries": {"Id": "a"}}),
        ("SendMessageBatch", {"QueueUrl": "/a/b", "Entries": [[]]}),
    ],
)
def test_value_of_another_type_is_refused(
    broker: NodeProcess, action: str, body: dict[str, Any]
) -> None:
    answer = exchange(broker.port, json.dumps(body).encode(), target(action))

    assert told(answer) == "SerializationException"


NULL = {"a": None, "b": "c"}
NO_ATTRIBUTE = {"a": None, "b": {"DataType": "String", "StringValue": "c"}}


@pytest.mark.parametrize(
    ("action", "members"),
    [
        ("TagQueue", {"Tags": NULL}),
        ("UntagQueue", {"TagKeys": ["b", None]}),
        ("SetQueueAttributes", {"Attributes": {"VisibilityTimeout": "7", "DelaySeconds": None}}),
        ("CreateQueue", {"QueueName": "never-made", "tags": NULL}),
        ("CreateQueue", {"QueueName": "never-made", "Attributes": {"DelaySeconds": None}}),
        ("SendMessage", {"MessageBody": "x", "MessageAttributes": NO_ATTRIBUTE}),
        (
            "SendMessage",
            {"MessageBody": "x", "MessageSystemAttributes": {"AWSTraceHeader": None}},
        ),
        (
            "SendMessageBatch",
            {"Entries": [{"Id": "a", "MessageBody": "x", "MessageAttributes": NO_ATTRIBUTE}]},
        ),
        ("SendMessageBatch", {"Entries": [{"Id": "a", "MessageBody": "x"}, None]}),
    ],
)
def test_null_within_a_list_or_map_is_refused_and_nothing_done(
    broker: NodeProcess, sqs: Any, queue: str, action: str, members: dict[str, Any]
) -> None:
    body = json.dumps({"QueueUrl": queue, **members}).encode()

    error = told(exchange(broker.port, body, target(action)))

    is_tag = NULL in members.values()
    assert error == ("InvalidParameterValueException" if is_tag else "SerializationException")
    asked = {"QueueUrl": queue, "AttributeNames": ["VisibilityTimeout"]}
    assert sqs.get_queue_attributes(**asked)["Attributes"] == {"VisibilityTimeout": "30"}
    assert "Tags" not in sqs.list_queue_tags(QueueUrl=queue)
    assert "Messages" not in sqs.receive_message(QueueUrl=queue)
    assert "QueueUrls" not in sqs.list_queues(QueueNamePrefix="never-made")


@pytest.mark.parametrize(("length", "status"), [(2_000, 200), (2_001, 400)])
def test_list_that_no_form_could_hold_is_refused(
    broker: NodeProcess, queue: str, length: int, status: int
) -> None:
    body = {"QueueUrl": queue, "MessageAttributeNames": ["a"] * length}

    answer = exchange(broker.port, json.dumps(body).encode(), target("ReceiveMessage"))

    assert answer.status == status
    if status == 400:
        assert told(answer) == "InvalidParameterValueException"


def test_member_that_is_unknown_or_null_is_passed_over(broker: NodeProcess, name: str) -> None:
    body = {"QueueName": name, "Colour": {"red": [1, None]}, "queuename": 1, "Attributes": None}

    answer = exchange(broker.port, json.dumps(body).encode(), target("CreateQueue"))

    assert json.loads(answer.body)["QueueUrl"].endswith(name)


@pytest.mark.parametrize(
    "headers",
    [
        JSON,
        JSON | {"X-Amz-Target": ""},
        JSON | {"X-Amz-Target": "ListQueues"},
        JSON | {"X-Amz-Target": "AmazonSQS."},
        JSON | {"X-Amz-Target": "AmazonSQS.Fly"},
        JSON | {"X-Amz-Target": "AmazonSQS.listqueues"},
        JSON | {"X-Amz-Target": "AmazonSNS.ListQueues"},
        JSON | {"X-Amz-Target": "AmazonSQS.AmazonSQS.ListQueues"},
        JSON | {"X-Amz-Target": "AmazonSQS.ListQueues\xff"},
        JSON | {"X-Amz-Target": "x" * 60_000},
        {"X-Amz-Target": "AmazonSQS.Fly"},
    ],
    ids=lambda headers: str(headers)[:80],
)
def test_operation_that_there_is_not_is_told_in_json(
    broker: NodeProcess, headers: dict[str, str]
) -> None:
    answer = exchange(broker.port, b"{}", headers)

    assert told(answer) == "UnknownOperationException"
    assert answer.headers["Content-Type"] == "application/x-amz-json-1.0"


@pytest.mark.parametrize(("mode", "status"), [("true", 404), ("false", 400), (None, 400)])
def test_status_is_the_modelled_one_for_clients_in_query_mode(
    broker: NodeProcess, mode: str | None, status: int
) -> None:
    headers = target("ListMessageMoveTasks") | ({"x-amzn-query-mode": mode} if mode else {})

    answer = exchange(broker.port, json.dumps({"SourceArn": ARN}).encode(), headers)

    assert told(answer) == "ResourceNotFoundException"
    assert answer.status == status
    assert answer.headers["x-amzn-query-error"] == "ResourceNotFoundException;Sender"


@pytest.mark.parametrize("mode", ["true", "false", None])
def test_queue_that_is_not_there_is_400_in_every_mode(
    broker: NodeProcess, mode: str | None
) -> None:
    headers = {"x-amzn-query-mode": mode} if mode else {}
    for action, body in (
        ("GetQueueUrl", {"QueueName": "nowhere"}),
        ("SendMessage", {"QueueUrl": f"http://h/{ACCOUNT}/nowhere", "MessageBody": "x"}),
    ):
        answer = exchange(broker.port, json.dumps(body).encode(), target(action) | headers)

        assert (told(answer), answer.status) == ("QueueDoesNotExist", 400)


@pytest.mark.parametrize(
    ("action", "body", "shape"),
    [
        ("StartMessageMoveTask", {"SourceArn": "\0"}, "InvalidParameterValueException"),
        (
            "StartMessageMoveTask",
            {"SourceArn": ARN, "DestinationArn": "\0"},
            "InvalidParameterValueException",
        ),
        ("ListMessageMoveTasks", {"SourceArn": "\0"}, "InvalidParameterValueException"),
        ("ListMessageMoveTasks", {"SourceArn": ":" * 100_000}, "InvalidParameterValueException"),
        (
            "ListMessageMoveTasks",
            {"SourceArn": f"{ARN}{':' * 99_999}"},
            "ResourceNotFoundException",
        ),
        ("CancelMessageMoveTask", {"TaskHandle": "\0"}, "InvalidParameterValueException"),
        ("ReceiveMessage", {"AttributeNames": ["\0"]}, "InvalidAttributeName"),
        ("RemovePermission", {"Label": "\0"}, "InvalidParameterValueException"),
        ("DeleteMessage", {"ReceiptHandle": "\0"}, "ReceiptHandleIsInvalid"),
        ("SendMessage", {"MessageBody": "\0"}, "InvalidMessageContents"),
        (
            "SendMessage",
            {
                "MessageBody": "x",
                "MessageAttributes": {"a": {"DataType": "String.\1", "StringValue": "x"}},
            },
            "InvalidParameterValueException",
        ),
        (
            "SendMessage",
            {
                "MessageBody": "x",
                "MessageAttributes": {"\0": {"DataType": "String", "StringValue": "x"}},
            },
            "InvalidParameterValueException",
        ),
        (
            "SendMessage",
            {
                "MessageBody": "x",
                "MessageAttributes": {"a": {"DataType": f"String.{'x' * 250}", "StringValue": "x"}},
            },
            "InvalidParameterValueException",
        ),
        ("SetQueueAttributes", {"Attributes": {"\0": "x"}}, "InvalidAttributeName"),
        ("SetQueueAttributes", {"Attributes": {"Policy": "\0"}}, "InvalidAttributeValue"),
    ],
)
def test_text_that_cannot_be_is_refused(
    broker: NodeProcess, queue: str, action: str, body: dict[str, Any], shape: str
) -> None:
    document = json.dumps({"QueueUrl": queue, **body}).encode()

    assert told(exchange(broker.port, document, target(action))) == shape
