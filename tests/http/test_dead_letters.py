import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from support.http import eventually

ARN = "arn:aws:sqs:us-east-1:000000000000:"


@pytest.fixture
def dead(sqs: Any, name: str) -> str:
    return str(sqs.create_queue(QueueName=f"{name}-dead")["QueueUrl"])


@pytest.fixture
def source(sqs: Any, name: str, dead: str) -> str:
    """Give a queue whose messages are dead after one receive."""
    del dead
    policy = json.dumps({"deadLetterTargetArn": f"{ARN}{name}-dead", "maxReceiveCount": "1"})
    return str(
        sqs.create_queue(QueueName=f"{name}-source", Attributes={"RedrivePolicy": policy})[
            "QueueUrl"
        ]
    )


def bodies(sqs: Any, queue: str, **options: Any) -> list[str]:
    answer = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, **options)
    return [m["Body"] for m in answer.get("Messages", [])]


def test_message_goes_to_the_dead_letters_at_the_receive_that_is_one_too_many(
    sqs: Any, source: str, dead: str, name: str
) -> None:
    sent = sqs.send_message(QueueUrl=source, MessageBody="poison")
    delivered = bodies(sqs, source, VisibilityTimeout=0)
    again = bodies(sqs, source)

    (letter,) = sqs.receive_message(QueueUrl=dead, AttributeNames=["All"])["Messages"]

    assert (delivered, again) == (["poison"], [])
    assert letter["MessageId"] == sent["MessageId"]
    assert letter["Attributes"]["ApproximateReceiveCount"] == "2"
    assert letter["Attributes"]["DeadLetterQueueSourceArn"] == f"{ARN}{name}-source"


def test_receiver_that_waits_on_the_dead_letters_gets_them(
    sqs: Any, source: str, dead: str
) -> None:
    sqs.send_message(QueueUrl=source, MessageBody="poison")
    bodies(sqs, source, VisibilityTimeout=0)
    bodies(sqs, source)

    assert eventually(lambda: bodies(sqs, dead, WaitTimeSeconds=5)) == ["poison"]


def test_policies_are_shown_as_aws_writes_them_and_vanish_when_emptied(
    sqs: Any, source: str, dead: str, name: str
) -> None:
    allow = {"redrivePermission": "byQueue", "sourceQueueArns": [f"{ARN}{name}-source"]}
    sqs.set_queue_attributes(QueueUrl=dead, Attributes={"RedriveAllowPolicy": json.dumps(allow)})

    def attributes(queue: str) -> dict[str, str]:
        found: dict[str, str] = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])[
            "Attributes"
        ]
        return found

    shown = attributes(source)["RedrivePolicy"]
    shown_allow = attributes(dead)["RedriveAllowPolicy"]
    sqs.set_queue_attributes(QueueUrl=source, Attributes={"RedrivePolicy": ""})
    sqs.set_queue_attributes(QueueUrl=dead, Attributes={"RedriveAllowPolicy": ""})

    assert shown == f'{{"deadLetterTargetArn":"{ARN}{name}-dead","maxReceiveCount":1}}'
    assert json.loads(shown_allow) == allow
    assert "RedrivePolicy" not in attributes(source)
    assert "RedriveAllowPolicy" not in attributes(dead)


def own_policy(arn: str) -> dict[str, str]:
    return {"RedrivePolicy": json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})}


@pytest.mark.parametrize("suffix", ["", ".fifo"])
@pytest.mark.parametrize("when", ["create", "set"])
def test_queue_may_be_its_own_dead_letter_queue(
    sqs: Any, name: str, suffix: str, when: str
) -> None:
    kind = {"FifoQueue": "true", "ContentBasedDeduplication": "true"} if suffix else {}
    given = own_policy(f"{ARN}{name}{suffix}")
    made = kind | given if when == "create" else kind
    queue = sqs.create_queue(QueueName=f"{name}{suffix}", Attributes=made)["QueueUrl"]
    if when == "set":
        sqs.set_queue_attributes(QueueUrl=queue, Attributes=given)

    assert sqs.list_dead_letter_source_queues(QueueUrl=queue)["queueUrls"] == [queue]

    # What is received too often is already where it goes: it stays, and its receives count on.
    group = {"MessageGroupId": "g"} if suffix else {}
    sent = [
        sqs.send_message(QueueUrl=queue, MessageBody=str(n), **group)["MessageId"] for n in range(3)
    ]
    for count in ("1", "2", "3"):
        received = sqs.receive_message(
            QueueUrl=queue, MaxNumberOfMessages=10, AttributeNames=["All"], VisibilityTimeout=0
        )["Messages"]
        assert sorted(m["MessageId"] for m in received) == sorted(sent)
        assert {m["Attributes"]["ApproximateReceiveCount"] for m in received} == {count}


def test_move_task_of_a_queue_that_is_its_own_dead_letter_queue_loses_nothing(
    sqs: Any, queue: str, name: str
) -> None:
    arn = f"{ARN}{name}"
    sqs.set_queue_attributes(QueueUrl=queue, Attributes=own_policy(arn))
    sqs.send_message(QueueUrl=queue, MessageBody="poison")
    bodies(sqs, queue, VisibilityTimeout=0)

    sqs.start_message_move_task(SourceArn=arn)

    def status() -> str:
        return str(sqs.list_message_move_tasks(SourceArn=arn)["Results"][0]["Status"])

    # The message came from no other queue.
    eventually(lambda: status() == "FAILED")
    assert bodies(sqs, queue) == ["poison"]


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        ("nonsense", "Redrive policy is not a valid JSON map."),
        ("[]", "Redrive policy is not a valid JSON map."),
        pytest.param("[" * 5000, "Redrive policy is not a valid JSON map.", id="deep"),
        ('{"maxReceiveCount":1}', "does not contain mandatory attribute: deadLetterTargetArn."),
        (f'{{"deadLetterTargetArn":"{ARN}x"}}', "mandatory attribute: maxReceiveCount."),
        (f'{{"deadLetterTargetArn":"{ARN}x","maxReceiveCount":1,"a":1}}', "Only following"),
        (
            '{"deadLetterTargetArn":"x","maxReceiveCount":1}',
            "Invalid value for deadLetterTargetArn.",
        ),
        (f'{{"deadLetterTargetArn":"{ARN}none","maxReceiveCount":1}}', "does not exist."),
        *(
            (
                f'{{"deadLetterTargetArn":"{ARN}x","maxReceiveCount":{count}}}',
                "valid values are from 1 to 1000 both inclusive.",
            )
            for count in ("0", "1001", '"ten"', "true", "1.5", "null")
        ),
    ],
)
def test_bad_redrive_policy_is_refused(sqs: Any, queue: str, policy: str, reason: str) -> None:
    with pytest.raises(ClientError) as caught:
        sqs.set_queue_attributes(QueueUrl=queue, Attributes={"RedrivePolicy": policy})

    error = caught.value.response["Error"]
    assert error["Code"] == "InvalidParameterValue"
    assert reason in error["Message"]


@pytest.mark.parametrize(
    "policy",
    [
        "nonsense",
        "{}",
        '{"redrivePermission":"perhaps"}',
        '{"redrivePermission":["denyAll"]}',
        '{"redrivePermission":"allowAll","sourceQueueArns":null}',
        '{"redrivePermission":"byQueue"}',
        f'{{"redrivePermission":"allowAll","sourceQueueArns":["{ARN}x"]}}',
        '{"redrivePermission":"byQueue","sourceQueueArns":["x"]}',
        json.dumps({"redrivePermission": "byQueue", "sourceQueueArns": [f"{ARN}x"] * 11}),
    ],
)
def test_bad_allow_policy_is_refused(sqs: Any, queue: str, policy: str) -> None:
    with pytest.raises(ClientError) as caught:
        sqs.set_queue_attributes(QueueUrl=queue, Attributes={"RedriveAllowPolicy": policy})

    assert caught.value.response["Error"]["Code"] == "InvalidParameterValue"


def test_sources_of_a_dead_letter_queue_are_listed_in_pages(
    sqs: Any, source: str, dead: str, name: str
) -> None:
    policy = sqs.get_queue_attributes(QueueUrl=source, AttributeNames=["RedrivePolicy"])[
        "Attributes"
    ]
    more = [
        sqs.create_queue(QueueName=f"{name}-a{n}", Attributes=policy)["QueueUrl"] for n in range(3)
    ]

    whole = sqs.list_dead_letter_source_queues(QueueUrl=dead)
    pages = sqs.get_paginator("list_dead_letter_source_queues").paginate(
        QueueUrl=dead, PaginationConfig={"PageSize": 3}
    )

    assert whole["queueUrls"] == [*more, source]
    assert [page["queueUrls"] for page in pages] == [more, [source]]


def test_queue_that_is_nobodys_dead_letter_queue_has_no_sources(sqs: Any, queue: str) -> None:
    assert not sqs.list_dead_letter_source_queues(QueueUrl=queue).get("queueUrls")
