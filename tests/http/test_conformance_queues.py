"""What CreateQueue, GetQueueUrl, ListQueues, DeleteQueue, PurgeQueue and the attributes do."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from support.http import ACCOUNT, NodeProcess, client

FRIEND = "111111111111"
NUMBERS = {
    "DelaySeconds": "1",
    "MaximumMessageSize": "2048",
    "MessageRetentionPeriod": "61",
    "ReceiveMessageWaitTimeSeconds": "2",
    "VisibilityTimeout": "3",
    "KmsDataKeyReusePeriodSeconds": "60",
}
READ_ONLY = (
    *("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesDelayed"),
    *("ApproximateNumberOfMessagesNotVisible", "CreatedTimestamp", "LastModifiedTimestamp"),
    "QueueArn",
)


def arn(name: str) -> str:
    return f"arn:aws:sqs:us-east-1:{ACCOUNT}:{name}"


def settable(name: str) -> dict[str, str]:
    """Return a value for every attribute of a standard queue that can be set."""
    return NUMBERS | {
        "KmsMasterKeyId": "alias/aws/sqs",
        "SqsManagedSseEnabled": "false",
        "Policy": '{"Version":"2012-10-17","Statement":[]}',
        "RedrivePolicy": json.dumps({"deadLetterTargetArn": arn(name), "maxReceiveCount": 3}),
        "RedriveAllowPolicy": '{"redrivePermission":"denyAll"}',
    }


def understood(attributes: dict[str, str]) -> dict[str, Any]:
    """Return attributes with the content of those that are JSON."""
    return {k: json.loads(v) if v.startswith("{") else v for k, v in attributes.items()}


def refused(caught: pytest.ExceptionInfo[ClientError]) -> tuple[str, str]:
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


def test_create_makes_a_queue_with_all_that_is_given(sqs: Any, queue: str, name: str) -> None:
    del queue  # It is there to be the dead-letter queue.
    given = settable(name)

    url = sqs.create_queue(QueueName=f"{name}-new", Attributes=given, tags={"team": "red"})[
        "QueueUrl"
    ]

    shown = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert understood(given).items() <= understood(shown).items()
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"team": "red"}
    assert url.endswith(f"/{ACCOUNT}/{name}-new")


def test_set_changes_all_that_is_given(sqs: Any, queue: str, name: str) -> None:
    sqs.create_queue(QueueName=f"{name}-dead")
    given = settable(f"{name}-dead")

    sqs.set_queue_attributes(QueueUrl=queue, Attributes=given)

    shown = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=list(given))["Attributes"]
    assert understood(shown) == understood(given)


def test_get_gives_each_attribute_by_its_name(sqs: Any, queue: str, name: str) -> None:
    sqs.create_queue(QueueName=f"{name}-dead")
    sqs.set_queue_attributes(QueueUrl=queue, Attributes=settable(f"{name}-dead"))
    names = [*settable(name), *READ_ONLY]

    single = {
        each: sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=[each])["Attributes"]
        for each in names
    }
    together = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=names)["Attributes"]
    everything = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]

    assert set(together) == set(names)
    assert single == {each: {each: value} for each, value in together.items()}
    assert everything == together
    assert together["QueueArn"] == arn(name)
    assert int(together["LastModifiedTimestamp"]) >= int(together["CreatedTimestamp"]) > 1.6e9
    assert {together[each] for each in READ_ONLY if each.startswith("Approximate")} == {"0"}


def test_attribute_that_queues_have_by_themselves_is_refused(
    sqs: Any, queue: str, name: str
) -> None:
    for each in (*READ_ONLY, "FifoQueue"):
        with pytest.raises(sqs.exceptions.InvalidAttributeName) as caught:
            sqs.set_queue_attributes(QueueUrl=queue, Attributes={each: "1"})
        assert refused(caught) == ("InvalidAttributeName", f"Unknown Attribute {each}.")
    for each in READ_ONLY:
        with pytest.raises(sqs.exceptions.InvalidAttributeName):
            sqs.create_queue(QueueName=f"{name}-never", Attributes={each: "1"})
    assert "QueueUrls" not in sqs.list_queues(QueueNamePrefix=f"{name}-never")


def test_attribute_that_there_is_not_is_refused(sqs: Any, queue: str, name: str) -> None:
    for call in (
        lambda: sqs.create_queue(QueueName=f"{name}-never", Attributes={"Colour": "red"}),
        lambda: sqs.set_queue_attributes(QueueUrl=queue, Attributes={"Colour": "red"}),
        lambda: sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["Colour"]),
    ):
        with pytest.raises(sqs.exceptions.InvalidAttributeName) as caught:
            call()
        assert refused(caught) == ("InvalidAttributeName", "Unknown Attribute Colour.")


def test_value_out_of_bounds_is_refused(sqs: Any, queue: str, name: str) -> None:
    attributes = {"VisibilityTimeout": "43201"}
    for call in (
        lambda: sqs.create_queue(QueueName=f"{name}-never", Attributes=attributes),
        lambda: sqs.set_queue_attributes(QueueUrl=queue, Attributes=attributes),
    ):
        with pytest.raises(ClientError) as caught:
            call()
        assert refused(caught) == (
            "InvalidAttributeValue",
            "Invalid value for the parameter VisibilityTimeout.",
        )


def test_policy_over_its_limits_is_refused(sqs: Any, queue: str, name: str) -> None:
    statement = {
        "Effect": "Allow",
        "Principal": "*",
        "Action": [f"SQS:Action{n}" for n in range(8)],
        "Resource": arn(name),
    }
    for policy in ({"Statement": [statement]}, {"Id": "x" * 8192, "Statement": []}):
        with pytest.raises(sqs.exceptions.OverLimit):
            sqs.set_queue_attributes(QueueUrl=queue, Attributes={"Policy": json.dumps(policy)})


def test_create_of_a_name_that_is_taken_is_refused(sqs: Any, queue: str, name: str) -> None:
    with pytest.raises(sqs.exceptions.QueueNameExists) as caught:
        sqs.create_queue(QueueName=name, Attributes={"DelaySeconds": "7"})

    assert refused(caught) == (
        "QueueAlreadyExists",
        "A queue already exists with the same name and a different value for attribute"
        " DelaySeconds",
    )
    assert sqs.create_queue(QueueName=name)["QueueUrl"] == queue


def test_deleted_queue_is_gone_and_its_name_is_barred(sqs: Any, queue: str, name: str) -> None:
    sqs.delete_queue(QueueUrl=queue)

    with pytest.raises(sqs.exceptions.QueueDoesNotExist):
        sqs.get_queue_url(QueueName=name)
    with pytest.raises(sqs.exceptions.QueueDoesNotExist):
        sqs.delete_queue(QueueUrl=queue)
    with pytest.raises(sqs.exceptions.QueueDeletedRecently) as caught:
        sqs.create_queue(QueueName=name)

    assert refused(caught)[1] == (
        "You must wait 60 seconds after deleting a queue before you can create another"
        " with the same name."
    )


def test_purge_empties_a_queue_once_a_minute(sqs: Any, queue: str, name: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="waiting")

    sqs.purge_queue(QueueUrl=queue)
    with pytest.raises(sqs.exceptions.PurgeQueueInProgress) as caught:
        sqs.purge_queue(QueueUrl=queue)

    assert refused(caught)[1] == (
        f"Only one PurgeQueue operation on {name} is allowed every 60 seconds."
    )
    assert "Messages" not in sqs.receive_message(QueueUrl=queue)


def test_url_of_a_queue_is_found_by_name_and_owner(
    sqs: Any, broker: NodeProcess, queue: str, name: str, wire: str
) -> None:
    friend = client(broker.url, wire, key=FRIEND)
    theirs = friend.create_queue(QueueName=name)["QueueUrl"]
    friend.add_permission(
        QueueUrl=theirs, Label="url", AWSAccountIds=[ACCOUNT], Actions=["GetQueueUrl"]
    )

    ours = sqs.get_queue_url(QueueName=name)
    found = sqs.get_queue_url(QueueName=name, QueueOwnerAWSAccountId=FRIEND)

    assert ours["QueueUrl"] == queue
    assert found["QueueUrl"] == theirs
    assert theirs == queue.replace(ACCOUNT, FRIEND)


def test_list_gives_pages_of_a_prefix(sqs: Any, name: str) -> None:
    urls = [sqs.create_queue(QueueName=f"{name}-{n}")["QueueUrl"] for n in range(3)]

    first = sqs.list_queues(QueueNamePrefix=f"{name}-", MaxResults=2)
    second = sqs.list_queues(QueueNamePrefix=f"{name}-", MaxResults=2, NextToken=first["NextToken"])
    whole = sqs.list_queues(QueueNamePrefix=f"{name}-")

    assert (first["QueueUrls"], second["QueueUrls"]) == (urls[:2], urls[2:])
    assert "NextToken" not in second
    assert whole["QueueUrls"] == urls
    assert "NextToken" not in whole


def test_tags_are_given_listed_and_taken(sqs: Any, queue: str) -> None:
    sqs.tag_queue(QueueUrl=queue, Tags={"team": "red", "stage": "test"})
    both = sqs.list_queue_tags(QueueUrl=queue)["Tags"]
    sqs.untag_queue(QueueUrl=queue, TagKeys=["team"])

    assert both == {"team": "red", "stage": "test"}
    assert sqs.list_queue_tags(QueueUrl=queue)["Tags"] == {"stage": "test"}


def test_permissions_are_given_and_taken(sqs: Any, queue: str) -> None:
    def policy() -> str:
        answer = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["Policy"])
        return str(answer.get("Attributes", {}).get("Policy", ""))

    sqs.add_permission(
        QueueUrl=queue, Label="friends", AWSAccountIds=[FRIEND], Actions=["SendMessage"]
    )
    given = json.loads(policy())["Statement"]
    sqs.remove_permission(QueueUrl=queue, Label="friends")

    assert [each["Sid"] for each in given] == ["friends"]
    assert given[0]["Principal"] == {"AWS": f"arn:aws:iam::{FRIEND}:root"}
    assert policy() == ""


def test_permission_of_more_than_seven_actions_is_refused(sqs: Any, queue: str) -> None:
    with pytest.raises(sqs.exceptions.OverLimit) as caught:
        sqs.add_permission(
            QueueUrl=queue,
            Label="friends",
            AWSAccountIds=[FRIEND],
            Actions=["SendMessage"] * 8,
        )

    assert refused(caught) == ("OverLimit", "8 Actions were found, maximum allowed is 7.")
