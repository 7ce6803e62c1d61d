"""An error repeats no more than 200 characters of what a client sent."""

import json
import re
from typing import Any
from urllib.parse import urlencode

import pytest

from support.http import ACCOUNT, NodeProcess
from support.wire import FORM, Answer, exchange, target

MOST = 200
LONG = "y" * 3000
ARN = f"arn:aws:sqs:us-east-1:{ACCOUNT}:"
REGION = f"arn:aws:sqs:{LONG}:{ACCOUNT}:q"
TEXT = {"DataType": "String", "StringValue": "x"}
NUMBER = {"DataType": "Number", "StringValue": LONG}
HANDLE = {"ReceiptHandle": LONG, "VisibilityTimeout": 1}


def policy(**content: Any) -> dict[str, str]:
    return {"RedrivePolicy": json.dumps(content)}


def attributes(name: str = "a", value: dict[str, str] = TEXT) -> dict[str, Any]:
    return {"MessageBody": "x", "MessageAttributes": {name: value}}


# What is refused for a value that is too long or holds one, by its action.
CASES: list[tuple[str, dict[str, Any]]] = [
    ("AddPermission", {"Label": LONG, "AWSAccountIds": [ACCOUNT], "Actions": ["*"]}),
    ("AddPermission", {"Label": "a", "AWSAccountIds": [LONG], "Actions": ["*"]}),
    ("AddPermission", {"Label": "a", "AWSAccountIds": ["y" * 9] * 300, "Actions": ["*"]}),
    ("AddPermission", {"Label": "a", "AWSAccountIds": [ACCOUNT], "Actions": [LONG]}),
    ("CancelMessageMoveTask", {"TaskHandle": LONG}),
    ("ChangeMessageVisibility", HANDLE),
    ("ChangeMessageVisibilityBatch", {"Entries": [{"Id": "a", **HANDLE}]}),
    ("CreateQueue", {"QueueName": LONG}),
    ("CreateQueue", {"QueueName": LONG, "tags": {str(n): "" for n in range(51)}}),
    ("CreateQueue", {"QueueName": "q", "Attributes": {LONG: "x"}}),
    ("CreateQueue", {"QueueName": "q", "Attributes": {"DelaySeconds": LONG}}),
    ("DeleteMessage", {"ReceiptHandle": LONG}),
    ("DeleteMessageBatch", {"Entries": [{"Id": "a", "ReceiptHandle": LONG}]}),
    ("DeleteMessageBatch", {"Entries": [{"Id": LONG, "ReceiptHandle": "x"}] * 2}),
    ("DeleteQueue", {"QueueUrl": LONG}),
    ("GetQueueAttributes", {"AttributeNames": [LONG]}),
    ("GetQueueUrl", {"QueueName": LONG}),
    ("GetQueueUrl", {"QueueName": "q", "QueueOwnerAWSAccountId": LONG}),
    ("ListMessageMoveTasks", {"SourceArn": LONG}),
    ("ListMessageMoveTasks", {"SourceArn": ARN + LONG}),
    ("ListQueues", {"NextToken": LONG + "?"}),
    ("ReceiveMessage", {"AttributeNames": [LONG]}),
    ("ReceiveMessage", {"ReceiveRequestAttemptId": LONG}),
    ("RemovePermission", {"Label": LONG}),
    ("SendMessage", attributes(LONG)),
    ("SendMessage", attributes(value={"DataType": LONG, "StringValue": "x"})),
    ("SendMessage", attributes("y" * 256, {"DataType": "String." + LONG, "StringValue": "x"})),
    ("SendMessage", attributes("y" * 256, NUMBER)),
    ("SendMessage", attributes("y" * 256, {"DataType": "Text", "StringValue": "x"})),
    ("SendMessage", attributes("y" * 256, {"DataType": "String", "StringValue": ""})),
    ("SendMessage", attributes("y" * 256, {"DataType": "", "StringValue": "x"})),
    ("SendMessage", {"MessageBody": "x", "MessageSystemAttributes": {LONG: TEXT}}),
    ("SendMessage", {"MessageBody": "x", "MessageGroupId": LONG}),
    ("SendMessage", {"MessageBody": "x", "MessageDeduplicationId": LONG}),
    ("SendMessageBatch", {"Entries": [{"Id": "a", **attributes(LONG)}]}),
    ("SetQueueAttributes", {"Attributes": {LONG: "x"}}),
    ("SetQueueAttributes", {"Attributes": {"Policy": LONG}}),
    ("SetQueueAttributes", {"Attributes": {"RedrivePolicy": LONG}}),
    ("SetQueueAttributes", {"Attributes": {"RedriveAllowPolicy": LONG}}),
    (
        "SetQueueAttributes",
        {"Attributes": policy(deadLetterTargetArn=ARN + "q", maxReceiveCount=LONG)},
    ),
    ("SetQueueAttributes", {"Attributes": policy(deadLetterTargetArn=REGION, maxReceiveCount=1)}),
    ("StartMessageMoveTask", {"SourceArn": LONG}),
    ("StartMessageMoveTask", {"SourceArn": ARN + "q", "DestinationArn": LONG}),
    ("TagQueue", {"Tags": {LONG: "x"}}),
    ("TagQueue", {"Tags": {"aws:" + LONG[:124]: "x"}}),
    ("TagQueue", {"Tags": {"a": LONG}}),
    ("TagQueue", {"Tags": {"a": "\u2603" + LONG[:255]}}),
]
FORMS = [
    f"Action={LONG}",
    f"Action=ListQueues&Version={LONG}",
    f"Action=ListQueues&MaxResults={LONG}",
    f"Action=CreateQueue&QueueName=q&Attribute.{LONG}.Name=a",
    f"Action=CreateQueue&QueueName=q&Tag.1.{LONG}=a",
    f"Action=ReceiveMessage&QueueUrl=q&AttributeName.1={LONG}",
    f"Action=DeleteMessage&QueueUrl=q&ReceiptHandle={LONG}",
    f"Action=SendMessage&QueueUrl=q&MessageBody=x&MessageGroupId={LONG}",
    "Action=SendMessage&QueueUrl=q&MessageBody=x&MessageAttribute.1.Name=a"
    f"&MessageAttribute.1.Value.DataType=Binary&MessageAttribute.1.Value.BinaryValue={LONG}!",
]


@pytest.fixture(scope="module")
def queue(queues: Any) -> str:
    """Give the URL of a queue that no request of these reaches."""
    return str(queues.create_queue(QueueName="never-reached")["QueueUrl"])


def check(answer: Answer) -> None:
    failed = "Failed" in answer.body and answer.status == 200
    assert failed or 400 <= answer.status < 500, (answer.status, answer.body)
    longest = max(map(len, re.findall("[y, ]+", answer.body)), default=0)
    assert longest <= MOST + 4, answer.body  # With the blanks around it.


@pytest.mark.parametrize(("action", "members"), CASES, ids=lambda value: str(value)[:60])
def test_long_value_is_not_repeated_in_json(
    broker: NodeProcess, queue: str, action: str, members: dict[str, Any]
) -> None:
    document = json.dumps({"QueueUrl": queue, **members}).encode()

    check(exchange(broker.port, document, target(action)))


@pytest.mark.parametrize("accept", ["text/xml", "application/json"])
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form[:50])
def test_long_value_is_not_repeated_on_the_query_wire(
    broker: NodeProcess, queue: str, form: str, accept: str
) -> None:
    form = form.replace("QueueUrl=q", urlencode({"QueueUrl": queue}))

    check(exchange(broker.port, form.encode(), FORM | {"Accept": accept}))


@pytest.mark.parametrize("length", [199, 200, 201, 10_000])
def test_value_of_200_characters_is_repeated_whole_and_a_longer_one_by_its_beginning(
    broker: NodeProcess, length: int
) -> None:
    value = "y" * length

    answer = exchange(broker.port, f"Action={value}".encode(), FORM)

    repeated = value if length <= MOST else f"{value[:197]}..."
    assert f"The action {repeated} is not valid for this endpoint." in answer.body
