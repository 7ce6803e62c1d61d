"""What is published to topics, over the wire of SNS, by boto3."""

import json
from collections.abc import Callable
from hashlib import sha256
from itertools import count
from threading import Thread
from typing import Any

import pytest
from botocore.exceptions import ClientError

from support.inbox import RAW, Inbox, subscribe
from support.topic_errors import ARN, NOWHERE, text

_number = count(1)


def test_envelope_is_that_of_sns(sns: Any, topic: str, inbox: Callable[..., Inbox]) -> None:
    queue = inbox()
    arn = subscribe(sns, topic, queue)
    attributes = {
        "attr1": text("99.12", "Number"),
        "attr2": {"DataType": "Binary", "BinaryValue": b"\x02\x03"},
    }
    id_ = sns.publish(
        TopicArn=topic, Message='say "hi"\n', Subject="s", MessageAttributes=attributes
    )["MessageId"]

    (message,) = queue.messages()
    found = json.loads(message["Body"])
    assert [*found] == [
        *("Type", "MessageId", "TopicArn", "Subject", "Message", "Timestamp"),
        *("SignatureVersion", "Signature", "SigningCertURL", "UnsubscribeURL"),
        "MessageAttributes",
    ]
    assert (found["Type"], found["MessageId"], found["TopicArn"]) == ("Notification", id_, topic)
    assert (found["Subject"], found["Message"]) == ("s", 'say "hi"\n')
    assert found["UnsubscribeURL"].endswith(f"/?Action=Unsubscribe&SubscriptionArn={arn}")
    assert found["MessageAttributes"] == {
        "attr1": {"Type": "Number", "Value": "99.12"},
        "attr2": {"Type": "Binary", "Value": "AgM="},
    }
    assert message["Body"].startswith('{\n  "Type" : "Notification",\n  "MessageId" : "')
    assert "MessageAttributes" not in message
    assert message["MessageId"] != id_


def test_raw_message_has_its_attributes_and_group(
    sns: Any, topic: str, inbox: Callable[..., Inbox]
) -> None:
    queue = inbox()
    subscribe(sns, topic, queue, **RAW)
    attributes = {"n": text("1", "Number"), "b": {"DataType": "Binary", "BinaryValue": b"x"}}
    body = json.dumps({"default": "d", "sqs": "for queues", "http": "h"})

    sns.publish(
        TargetArn=topic,
        Message=body,
        MessageStructure="json",
        MessageAttributes=attributes,
        MessageGroupId="g",
    )

    (message,) = queue.messages()
    assert message["Body"] == "for queues"
    assert message["MessageAttributes"] == attributes
    assert message["Attributes"]["MessageGroupId"] == "g"


def test_batch_goes_to_all_queues(sns: Any, topic: str, inbox: Callable[..., Inbox]) -> None:
    inboxes = [inbox(), inbox()]
    for each in inboxes:
        subscribe(sns, topic, each, **RAW)

    answer = sns.publish_batch(
        TopicArn=topic,
        PublishBatchRequestEntries=[{"Id": each, "Message": each} for each in ("a", "b")],
    )

    assert [each["Id"] for each in answer["Successful"]] == ["a", "b"]
    assert answer["Failed"] == []
    assert [sorted(each.bodies()) for each in inboxes] == [["a", "b"], ["a", "b"]]


def test_receiver_that_waits_gets_a_published_message(
    sns: Any, queues: Any, topic: str, inbox: Callable[..., Inbox]
) -> None:
    queue = inbox()
    subscribe(sns, topic, queue, **RAW)
    got: list[Any] = []

    def wait() -> None:
        got.append(queues.receive_message(QueueUrl=queue.url, WaitTimeSeconds=20))

    waiting = Thread(target=wait)
    waiting.start()
    sns.publish(TopicArn=topic, Message="now")
    waiting.join(30)

    assert [each["Body"] for each in got[0]["Messages"]] == ["now"]


def test_fifo_topic_deduplicates_and_keeps_the_order(
    sns: Any, fifo_topic: str, inbox: Callable[..., Inbox]
) -> None:
    queue, standard = inbox(".fifo"), inbox()
    subscribe(sns, fifo_topic, queue)
    subscribe(sns, fifo_topic, standard, **RAW)
    answers = [
        sns.publish(TopicArn=fifo_topic, Message=each, MessageGroupId="g")
        for each in ("one", "two", "one")
    ]
    other = sns.publish(TopicArn=fifo_topic, Message="one", MessageGroupId="h")

    first, second, again = answers
    assert first == {**again, "ResponseMetadata": first["ResponseMetadata"]}
    assert other["MessageId"] == first["MessageId"]
    assert first["SequenceNumber"] < second["SequenceNumber"]
    assert len(first["SequenceNumber"]) == 20
    found = queue.messages()
    bodies = [json.loads(each["Body"]) for each in found]
    assert [each["Message"] for each in bodies] == ["one", "two"]
    assert bodies[0]["SequenceNumber"] == first["SequenceNumber"]
    assert "Signature" not in bodies[0]
    assert found[0]["Attributes"]["MessageGroupId"] == "g"
    assert found[0]["Attributes"]["MessageDeduplicationId"] == sha256(b"one").hexdigest()
    assert sorted(standard.bodies()) == ["one", "two"]


def test_fifo_topic_needs_a_group_and_a_deduplication_id(sns: Any) -> None:
    name = f"published-{next(_number)}.fifo"
    arn = sns.create_topic(Name=name, Attributes={"FifoTopic": "true"})["TopicArn"]

    with pytest.raises(ClientError) as no_group:
        sns.publish(TopicArn=arn, Message="x")
    with pytest.raises(ClientError) as no_id:
        sns.publish(TopicArn=arn, Message="x", MessageGroupId="g")

    assert no_group.value.response["Error"]["Message"] == (
        "Invalid parameter: The MessageGroupId parameter is required for FIFO topics"
    )
    assert no_id.value.response["Error"]["Message"] == (
        "Invalid parameter: The topic should either have ContentBasedDeduplication enabled or"
        " MessageDeduplicationId provided explicitly"
    )


def test_what_a_queue_cannot_take_goes_to_the_dead_letter_queue_of_the_subscription(
    sns: Any, queues: Any, topic: str, inbox: Callable[..., Inbox]
) -> None:
    gone, small, dead, well = inbox(), inbox(MaximumMessageSize="1024"), inbox(), inbox()
    redrive = {"RedrivePolicy": json.dumps({"deadLetterTargetArn": dead.arn})}
    for each in (gone, small):
        subscribe(sns, topic, each, **RAW, **redrive)
    subscribe(sns, topic, well, **RAW)
    queues.delete_queue(QueueUrl=gone.url)

    sns.publish(TopicArn=topic, Message="x" * 2_000)

    assert dead.bodies() == ["x" * 2_000] * 2
    assert well.bodies() == ["x" * 2_000]
    assert small.bodies() == []


def test_policy_of_a_queue_decides_for_the_topic(
    sns: Any, queues: Any, topic: str, inbox: Callable[..., Inbox]
) -> None:
    queue = inbox()
    subscribe(sns, topic, queue, **RAW)

    def allow(source: str, effect: str = "Allow") -> None:
        statement = {
            "Effect": effect,
            "Principal": {"Service": "sns.amazonaws.com"},
            "Action": "sqs:SendMessage",
            "Resource": queue.arn,
            "Condition": {"ArnEquals": {"aws:SourceArn": source}},
        }
        policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        queues.set_queue_attributes(QueueUrl=queue.url, Attributes={"Policy": policy})
        sns.publish(TopicArn=topic, Message=f"{effect} {source}")

    allow(topic)
    allow(NOWHERE)
    allow(topic, "Deny")
    allow(f"{ARN}:*")

    assert sorted(queue.bodies()) == sorted([f"Allow {topic}", f"Allow {ARN}:*"])
