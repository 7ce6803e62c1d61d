from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

FRESH = {
    "ApproximateNumberOfMessages": "0",
    "ApproximateNumberOfMessagesDelayed": "0",
    "ApproximateNumberOfMessagesNotVisible": "0",
    "DelaySeconds": "0",
    "MaximumMessageSize": "1048576",
    "MessageRetentionPeriod": "345600",
    "ReceiveMessageWaitTimeSeconds": "0",
    "SqsManagedSseEnabled": "true",
    "VisibilityTimeout": "30",
}


def attributes(sqs: Any, queue: str, *names: str) -> dict[str, str]:
    answer = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=list(names))
    found: dict[str, str] = answer.get("Attributes", {})
    return found


def test_all_of_a_fresh_queue_is_what_aws_gives(sqs: Any, queue: str, name: str) -> None:
    found = attributes(sqs, queue, "All")

    assert found.pop("CreatedTimestamp") == found.pop("LastModifiedTimestamp")
    assert found == FRESH | {"QueueArn": f"arn:aws:sqs:us-east-1:000000000000:{name}"}


def test_get_gives_only_what_is_named(sqs: Any, queue: str) -> None:
    assert attributes(sqs, queue, "DelaySeconds", "VisibilityTimeout") == {
        "DelaySeconds": "0",
        "VisibilityTimeout": "30",
    }


def test_get_without_names_gives_nothing(sqs: Any, queue: str) -> None:
    assert "Attributes" not in sqs.get_queue_attributes(QueueUrl=queue)


def test_get_of_unknown_attribute_is_refused(sqs: Any, queue: str) -> None:
    with pytest.raises(sqs.exceptions.InvalidAttributeName) as caught:
        attributes(sqs, queue, "Colour")

    assert caught.value.response["Error"]["Message"] == "Unknown Attribute Colour."


def test_counts_tell_visible_in_flight_and_delayed_apart(sqs: Any, queue: str) -> None:
    for n in range(3):
        sqs.send_message(QueueUrl=queue, MessageBody=str(n))
    sqs.send_message(QueueUrl=queue, MessageBody="later", DelaySeconds=900)
    sqs.receive_message(QueueUrl=queue)

    found = attributes(sqs, queue, "All")

    assert found["ApproximateNumberOfMessages"] == "2"
    assert found["ApproximateNumberOfMessagesNotVisible"] == "1"
    assert found["ApproximateNumberOfMessagesDelayed"] == "1"


def test_set_is_seen_at_once_and_only_changes_what_is_named(sqs: Any, queue: str) -> None:
    sqs.set_queue_attributes(
        QueueUrl=queue, Attributes={"DelaySeconds": "9", "MessageRetentionPeriod": "60"}
    )

    found = attributes(sqs, queue, "All")
    assert found["DelaySeconds"] == "9"
    assert found["MessageRetentionPeriod"] == "60"
    assert found["VisibilityTimeout"] == "30"


def test_encryption_and_policy_are_kept_and_vanish_with_their_default(sqs: Any, queue: str) -> None:
    policy = '{"Version":"2012-10-17","Statement":[]}'
    given = {
        "KmsMasterKeyId": "alias/aws/sqs",
        "KmsDataKeyReusePeriodSeconds": "60",
        "Policy": policy,
    }
    sqs.set_queue_attributes(QueueUrl=queue, Attributes=given)
    present = attributes(sqs, queue, "All")
    sqs.set_queue_attributes(
        QueueUrl=queue,
        Attributes={"KmsMasterKeyId": "", "KmsDataKeyReusePeriodSeconds": "300", "Policy": ""},
    )

    assert given.items() <= present.items()
    assert not set(given) & set(attributes(sqs, queue, "All"))


def test_reuse_period_is_shown_with_a_key_of_kms_even_the_default(sqs: Any, name: str) -> None:
    key, period = {"KmsMasterKeyId": "alias/aws/sqs"}, {"KmsDataKeyReusePeriodSeconds": "300"}
    queue = sqs.create_queue(QueueName=name, Attributes=key)["QueueUrl"]

    assert (key | period).items() <= attributes(sqs, queue, "All").items()
    assert attributes(sqs, queue, *period) == period
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"KmsMasterKeyId": ""})
    assert attributes(sqs, queue, *period) == {}


def test_key_of_kms_turns_the_other_encryption_off(sqs: Any, name: str) -> None:
    key = {"KmsMasterKeyId": "alias/aws/sqs"}
    queue = sqs.create_queue(QueueName=name, Attributes=key)["QueueUrl"]
    again = sqs.create_queue(QueueName=name, Attributes=key)["QueueUrl"]

    with pytest.raises(ClientError) as caught:
        sqs.set_queue_attributes(QueueUrl=queue, Attributes=key | {"SqsManagedSseEnabled": "true"})

    assert again == queue
    assert attributes(sqs, queue, "SqsManagedSseEnabled") == {"SqsManagedSseEnabled": "false"}
    assert "one type of server-side encryption" in caught.value.response["Error"]["Message"]


def test_encryption_of_sqs_takes_the_key_of_kms_away(sqs: Any, name: str) -> None:
    key, managed = {"KmsMasterKeyId": "alias/aws/sqs"}, {"SqsManagedSseEnabled": "true"}
    queue = sqs.create_queue(QueueName=name, Attributes=key)["QueueUrl"]

    sqs.set_queue_attributes(QueueUrl=queue, Attributes=managed)

    found = attributes(sqs, queue, "All")
    assert managed.items() <= found.items()
    assert "KmsMasterKeyId" not in found
    assert "KmsDataKeyReusePeriodSeconds" not in found
    sqs.set_queue_attributes(QueueUrl=queue, Attributes=key)
    assert (key | {"SqsManagedSseEnabled": "false"}).items() <= attributes(
        sqs, queue, "All"
    ).items()


def test_boolean_attribute_is_taken_in_any_case_and_shown_in_lower(sqs: Any, name: str) -> None:
    given = {"SqsManagedSseEnabled": "FALSE"}
    queue = sqs.create_queue(QueueName=name, Attributes=given)["QueueUrl"]
    made = attributes(sqs, queue, "SqsManagedSseEnabled")
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"SqsManagedSseEnabled": "True"})

    assert made == {"SqsManagedSseEnabled": "false"}
    assert attributes(sqs, queue, "SqsManagedSseEnabled") == {"SqsManagedSseEnabled": "true"}


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("VisibilityTimeout", "43201"),
        ("VisibilityTimeout", "-1"),
        ("VisibilityTimeout", "ten"),
        ("VisibilityTimeout", "1.5"),
        ("DelaySeconds", "901"),
        ("MaximumMessageSize", "1023"),
        ("MaximumMessageSize", "1048577"),
        ("MessageRetentionPeriod", "59"),
        ("MessageRetentionPeriod", "1209601"),
        ("ReceiveMessageWaitTimeSeconds", "21"),
        ("KmsDataKeyReusePeriodSeconds", "59"),
        ("KmsMasterKeyId", "k" * 2_049),
        ("SqsManagedSseEnabled", "perhaps"),
        ("Policy", "{"),
        ("Policy", "[]"),
        ("Policy", '{"Statement":5}'),
        pytest.param("Policy", '{"a":' * 1300 + "1" + "}" * 1300, id="deep"),
        ("HistoryMode", "some"),
        ("ReplicationMode", "some"),
        ("BodySchema", "{}"),
        ("BodySchemaMode", "some"),
        ("DeduplicationSeconds", "31536001"),
        ("DeduplicationSeconds", "-1"),
        ("MaximumDelaySeconds", "31536001"),
        ("RetryBackoff", "10"),
        ("RetryBackoff", "{}"),
        ("RetryBackoff", '{"base": -1}'),
        ("RetryBackoff", '{"base": 10, "maximum": 5}'),
        ("RetryBackoff", '{"base": 10, "factor": 0.5}'),
        ("RetryBackoff", '{"base": 10, "jitter": 2}'),
        ("RetryBackoff", '{"base": 10, "maximum": 43201}'),
        ("RetryBackoff", '{"base": 10, "step": 1}'),
    ],
)
def test_bad_value_is_refused_on_create_and_on_set(
    sqs: Any, queue: str, attribute: str, value: str
) -> None:
    for call in (
        lambda: sqs.set_queue_attributes(QueueUrl=queue, Attributes={attribute: value}),
        lambda: sqs.create_queue(QueueName="never-made", Attributes={attribute: value}),
    ):
        with pytest.raises(ClientError) as caught:
            call()
        error = caught.value.response["Error"]
        assert error["Code"] == "InvalidAttributeValue"
        assert error["Message"].startswith(f"Invalid value for the parameter {attribute}.")


@pytest.mark.parametrize(
    ("attribute", "text"),
    [
        ("Colour", "Unknown Attribute Colour."),
        ("QueueArn", "Unknown Attribute QueueArn."),
        ("ApproximateNumberOfMessages", "Unknown Attribute ApproximateNumberOfMessages."),
        ("ContentBasedDeduplication", "Unknown Attribute ContentBasedDeduplication."),
        (
            "DeduplicationScope",
            "You can specify the DeduplicationScope only when FifoQueue is set to true.",
        ),
    ],
)
def test_attribute_that_cannot_be_set_is_refused(
    sqs: Any, queue: str, attribute: str, text: str
) -> None:
    with pytest.raises(sqs.exceptions.InvalidAttributeName) as caught:
        sqs.set_queue_attributes(QueueUrl=queue, Attributes={attribute: "false"})

    assert caught.value.response["Error"]["Message"] == text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HistoryMode", "full"),
        ("ReplicationMode", "none"),
        ("Paused", "true"),
        ("BodySchema", '{"type": "object", "properties": {"A": {}}}'),
        ("BodySchemaMode", "enforce"),
    ],
)
def test_attribute_of_ours_is_shown_only_when_named(
    sqs: Any, queue: str, name: str, value: str
) -> None:
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={name: value})

    assert attributes(sqs, queue, name) == {name: value}
    assert name not in attributes(sqs, queue, "All")


def test_attribute_of_ours_is_among_all_where_it_is_set(sqs: Any, queue: str) -> None:
    given = {
        "DeduplicationSeconds": "86400",
        "MaximumDelaySeconds": "1000",
        "RetryBackoff": '{"base":10,"factor":2,"jitter":0.1,"maximum":3600}',
    }
    before = attributes(sqs, queue, "All")
    sqs.set_queue_attributes(QueueUrl=queue, Attributes=given)

    assert not given.keys() & before.keys()
    assert {name: attributes(sqs, queue, "All").get(name) for name in given} == given


@pytest.mark.parametrize("action", ["SetQueueAttributes", "PauseQueue"])
def test_paused_queue_has_who_and_since_when(
    sqs: Any, ask: Callable[..., dict[str, Any]], queue: str, action: str
) -> None:
    names = ["PausedBy", "PausedTimestamp"]
    if action == "PauseQueue":
        ask(action, QueueUrl=queue)
    else:
        sqs.set_queue_attributes(QueueUrl=queue, Attributes={"Paused": "true"})

    found = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=names)["Attributes"]

    assert found["PausedBy"] == "000000000000"
    assert int(found["PausedTimestamp"]) > 1_700_000_000
    with pytest.raises(sqs.exceptions.InvalidAttributeName):
        sqs.set_queue_attributes(QueueUrl=queue, Attributes={"PausedBy": "anna"})
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"Paused": "false"})
    assert "Attributes" not in sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=names)
