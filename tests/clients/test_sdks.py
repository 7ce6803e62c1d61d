"""The same life of queues and messages through the SDKs of other languages and of other times.

Each program checks what its SDK gives it, and prints a summary, which is the same for all.
"""

import re
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

import pytest

from support import programs
from support.http import client

PROGRAMS = {
    "boto3": programs.python("boto3_life.py"),
    "boto3-query": programs.python("boto3_life.py", "boto3_query"),
    "aiobotocore": programs.python("aiobotocore_json.py", "aiobotocore"),
    "javascript": programs.javascript("life.js"),
    "java": programs.java("Life"),
    "go": programs.go("life"),
}
MESSAGE_ATTRIBUTES = {
    "Title": ["String", "Grüße ☕"],
    "Weight": ["Number", "12.50"],
    "Leaf": ["Binary", "0001feff"],
}
# The SDK for Java checks it by itself; the others leave it to their users.
DIGEST = "06ea1d70e6b3ed2f6a0ab68c7a473b1f"
each_sdk = pytest.mark.parametrize("sdk", PROGRAMS)
Life = Callable[[str], dict[str, Any]]


@pytest.fixture(scope="module")
def life(signed_endpoint: Any) -> Life:
    """Give the summaries of an SDK, which goes once through all that its program does."""
    url, key = signed_endpoint
    return cache(lambda sdk: PROGRAMS[sdk].run(url, f"{sdk}-life", key=key))


def expected(prefix: str) -> dict[str, Any]:
    return {
        "single": {
            "body": "<first> & ☕",
            "message_attributes": MESSAGE_ATTRIBUTES,
            "digest": DIGEST,
            "receive_counts": ["1", "2"],
        },
        "delayed": "waited for",
        "batch": {
            "bodies": sorted(f"entry {n}" for n in range(11)),
            "refused": {"late": True},
            "left": ["0", "0"],
        },
        "settings": {
            "attributes": ["45", "3600", f"{prefix}-main"],
            "tags": [{"team": "tea", "stage": "test + try = @1"}, {"stage": "test + try = @1"}],
        },
        "dead_letter": {"body": "poison", "source": f"{prefix}-source"},
        "after_purge": 0,
        "absent": ["QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue"],
    }


@each_sdk
def test_sdk_signs_and_goes_through_the_life_of_standard_queues(
    signed_endpoint: Any, life: Life, sdk: str
) -> None:
    prefix, (url, key) = f"{sdk}-life", signed_endpoint
    summary = dict(life(sdk)["standard"])
    pages = summary.pop("pages")

    assert summary == expected(prefix)
    assert [len(page) for page in pages] == [2, 1]
    assert {name for page in pages for name in page} == {
        f"{prefix}-{name}" for name in ("main", "source", "dead")
    }
    sqs = client(url, key=key["AWS_ACCESS_KEY_ID"], secret=key["AWS_SECRET_ACCESS_KEY"])
    [left] = sqs.list_queues(QueueNamePrefix=prefix)["QueueUrls"]
    [message] = sqs.receive_message(
        QueueUrl=left, MessageAttributeNames=["All"], WaitTimeSeconds=20
    )["Messages"]
    assert message["Body"] == "for another client"
    assert message["MessageAttributes"]["Leaf"]["BinaryValue"] == b"\x00\x01\xfe\xff"
    assert message["MessageAttributes"]["Title"]["StringValue"] == "Grüße ☕"
    assert re.search("SignatureDoesNotMatch|signature we calculated", life(sdk)["refused"])


@each_sdk
def test_sdk_goes_through_the_life_of_a_fifo(life: Life, sdk: str) -> None:
    summary = life(sdk)["fifo"]
    sent = summary["sent"]

    assert sorted(sent) == ["a1", "a2", "a3", "b1", "b2"]
    assert len({message_id for message_id, _ in sent.values()}) == 5
    assert summary["again"] == sent["b2"]
    assert (summary["heads"], summary["while_taken"], summary["more"]) == (2, 0, 0)
    for group, bodies in {"a": ["a1", "a2", "a3"], "b": ["b1", "b2"]}.items():
        received = [message[1:] for message in summary["received"] if message[0] == group]
        assert received == [[body, *sent[body]] for body in bodies]
        numbers = [int(number) for _, _, number in received]
        assert all(earlier < later for earlier, later in pairwise(numbers))


def test_old_boto3_speaks_query(life: Life) -> None:
    about = life("boto3-query")["client"]

    assert about["protocol"] == "query"
    assert about["content_types"] == ["application/x-www-form-urlencoded"]
    assert about["api_versions"] == ["2012-11-05"]
    assert {"CreateQueue", "SendMessageBatch", "ListDeadLetterSourceQueues"} <= set(
        about["actions"]
    )
    assert about["version"] == "1.28.80"


def test_boto3_of_today_speaks_json(life: Life) -> None:
    about = life("boto3")["client"]

    assert about["protocol"] == "json"
    assert about["content_types"] == ["application/x-amz-json-1.0"]


def test_aiobotocore_tasks_wait_send_receive_and_delete_at_once(life: Life) -> None:
    assert life("aiobotocore")["client"]["protocol"] == "json"
    summary = life("aiobotocore")["together"]

    assert all(len(messages) == 1 for messages in summary["woken"])
    assert sorted(body for [body] in summary["woken"]) == [f"waited for {n}" for n in range(5)]
    assert sorted(summary["found"]) == sorted(f"task {n}" for n in range(100))
    assert summary["left"] == ["0", "0"]
