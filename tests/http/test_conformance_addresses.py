"""What each action says of a queue that is not there, and of an address that names none."""

import re
from typing import Any

import pytest
from botocore.exceptions import ClientError

from support.conformance import actions_of
from support.http import ACCOUNT, NodeProcess

NOTHING_THERE = "test_queue_that_is_not_there_is_told"
# What each action needs besides the queue.
NEEDS: dict[str, dict[str, Any]] = {
    "AddPermission": {"Label": "a", "AWSAccountIds": [ACCOUNT], "Actions": ["*"]},
    "ChangeMessageVisibility": {"ReceiptHandle": "x", "VisibilityTimeout": 0},
    "ChangeMessageVisibilityBatch": {"Entries": [{"Id": "a", "ReceiptHandle": "x"}]},
    "DeleteMessage": {"ReceiptHandle": "x"},
    "DeleteMessageBatch": {"Entries": [{"Id": "a", "ReceiptHandle": "x"}]},
    "RemovePermission": {"Label": "a"},
    "SendMessage": {"MessageBody": "x"},
    "SendMessageBatch": {"Entries": [{"Id": "a", "MessageBody": "x"}]},
    "SetQueueAttributes": {"Attributes": {"DelaySeconds": "0"}},
    "TagQueue": {"Tags": {"a": "b"}},
    "UntagQueue": {"TagKeys": ["a"]},
}


def refused(sqs: Any, action: str, **parameters: Any) -> tuple[str, str]:
    method = getattr(sqs, re.sub(r"(?<!^)(?=[A-Z])", "_", action).lower())
    with pytest.raises(ClientError) as caught:
        method(**parameters, **NEEDS.get(action, {}))
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


@pytest.mark.parametrize("action", actions_of(NOTHING_THERE))
def test_queue_that_is_not_there_is_told(
    sqs: Any, broker: NodeProcess, wire: str, name: str, action: str
) -> None:
    where = (
        {"QueueName": name}
        if action == "GetQueueUrl"
        else {"QueueUrl": f"{broker.url}/{ACCOUNT}/{name}"}
    )

    end = "." if wire == "json" else " for this wsdl version."
    assert refused(sqs, action, **where) == (
        "AWS.SimpleQueueService.NonExistentQueue",
        f"The specified queue does not exist{end}",
    )


@pytest.mark.parametrize("action", sorted({*actions_of(NOTHING_THERE)} - {"GetQueueUrl"}))
def test_address_that_names_no_queue_is_a_queue_that_is_not_there(sqs: Any, action: str) -> None:
    for address in (
        "http://nonsense",
        "http://host/",
        "http://host/only",
        "sqs.example.com",
        "a b",
    ):
        assert refused(sqs, action, QueueUrl=address)[0] == (
            "AWS.SimpleQueueService.NonExistentQueue"
        )
