"""Topics and subscriptions over the wire of SNS, by boto3."""

import json
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from botocore.exceptions import ClientError

from skipmq.protocol.sns import shapes
from support.http import NodeProcess, raw
from support.inbox import Inbox, subscribe
from support.topic_errors import ACCOUNT, ARN, ERRORS, OF_TOPIC

_number = count(1)


@pytest.mark.parametrize("action", shapes.ACTIONS)
def test_shapes_are_those_of_the_service_model(sns: Any, action: str) -> None:
    model = sns.meta.service_model.operation_model(shapes.ON_THE_WIRE.get(action, action))
    shape = shapes.ACTIONS[action]

    assert [*shape.input.members] == [*model.input_shape.members]
    assert shape.input.required == {*model.input_shape.required_members}
    if model.output_shape is None:
        assert shape.output is None
    else:
        assert shape.output is not None
        assert {*shape.output.members} == {*model.output_shape.members}


@pytest.mark.parametrize(("action", "parameters", "code", "message"), ERRORS)
def test_invalid_request_is_refused(
    sns: Any, action: str, parameters: dict[str, Any], code: str, message: str
) -> None:
    with pytest.raises(ClientError) as caught:
        getattr(sns, action)(**parameters)

    assert caught.value.response["Error"] == {"Type": "Sender", "Code": code, "Message": message}


@pytest.mark.parametrize(("action", "parameters", "code", "message"), OF_TOPIC)
def test_invalid_request_on_a_topic_is_refused(
    sns: Any, topic: str, action: str, parameters: dict[str, Any], code: str, message: str
) -> None:
    with pytest.raises(ClientError) as caught:
        getattr(sns, action)(TopicArn=topic, **parameters)

    assert caught.value.response["Error"] == {"Type": "Sender", "Code": code, "Message": message}
    assert sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"] == []


def test_other_actions_of_sns_are_refused_in_one_sentence(sns: Any) -> None:
    with pytest.raises(ClientError) as caught:
        sns.list_platform_applications()

    assert caught.value.response["Error"]["Code"] == "InvalidAction"
    assert "without SMS, mobile push" in caught.value.response["Error"]["Message"]


def test_topic_is_created_once_and_deleted_with_its_subscriptions(
    sns: Any, inbox: Callable[..., Inbox]
) -> None:
    name = f"managed-{next(_number)}"
    tags = [{"Key": "team", "Value": "tea"}]
    made = sns.create_topic(Name=name, Attributes={"DisplayName": "d"}, Tags=tags)["TopicArn"]

    assert made == f"{ARN}:{name}"
    assert sns.create_topic(Name=name)["TopicArn"] == made
    assert sns.create_topic(Name=name, Attributes={"DisplayName": "d"}, Tags=tags)
    for different, what in (
        (
            {"Attributes": {"DisplayName": "e"}},
            "Attributes Reason: Topic already exists with different attributes",
        ),
        (
            {"Attributes": {"SignatureVersion": "2"}},
            "Attributes Reason: Topic already exists with different attributes",
        ),
        (
            {"Tags": [{"Key": "a", "Value": "b"}]},
            "Tags Reason: Topic already exists with different tags",
        ),
    ):
        with pytest.raises(ClientError, match=what):
            sns.create_topic(Name=name, **different)
    assert made in [each["TopicArn"] for each in sns.list_topics()["Topics"]]
    arn = subscribe(sns, made, inbox())
    sns.delete_topic(TopicArn=made)
    sns.delete_topic(TopicArn=made)
    with pytest.raises(ClientError, match="Subscription does not exist"):
        sns.get_subscription_attributes(SubscriptionArn=arn)
    again = sns.create_topic(Name=name)["TopicArn"]
    assert sns.list_tags_for_resource(ResourceArn=again)["Tags"] == []


def test_attributes_of_a_fresh_topic(sns: Any, topic: str, fifo_topic: str) -> None:
    found = sns.get_topic_attributes(TopicArn=topic)["Attributes"]
    of_fifo = sns.get_topic_attributes(TopicArn=fifo_topic)["Attributes"]

    policy = json.loads(found.pop("Policy"))
    assert policy["Statement"][0]["Condition"] == {"StringEquals": {"AWS:SourceOwner": ACCOUNT}}
    assert json.loads(found.pop("EffectiveDeliveryPolicy"))["http"]["defaultHealthyRetryPolicy"]
    assert found == {
        "DisplayName": "",
        "Owner": ACCOUNT,
        "SubscriptionsConfirmed": "0",
        "SubscriptionsDeleted": "0",
        "SubscriptionsPending": "0",
        "TopicArn": topic,
    }
    assert (of_fifo["FifoTopic"], of_fifo["ContentBasedDeduplication"]) == ("true", "true")


def test_attributes_tags_and_permissions_of_a_topic_are_set(sns: Any, topic: str) -> None:
    def attribute(name: str) -> Any:
        return sns.get_topic_attributes(TopicArn=topic)["Attributes"].get(name)

    sns.set_topic_attributes(TopicArn=topic, AttributeName="DisplayName", AttributeValue="x")
    sns.tag_resource(ResourceArn=topic, Tags=[{"Key": k, "Value": "1"} for k in "ab"])
    sns.untag_resource(ResourceArn=topic, TagKeys=["a", "c"])
    sns.add_permission(
        TopicArn=topic, Label="l", AWSAccountId=["111122223333"], ActionName=["Publish"]
    )
    statement = json.loads(attribute("Policy"))["Statement"][1]
    with pytest.raises(ClientError, match="Invalid parameter: Statement already exists"):
        sns.add_permission(
            TopicArn=topic, Label="l", AWSAccountId=["111122223333"], ActionName=["Publish"]
        )
    sns.remove_permission(TopicArn=topic, Label="l")

    assert attribute("DisplayName") == "x"
    assert sns.list_tags_for_resource(ResourceArn=topic)["Tags"] == [{"Key": "b", "Value": "1"}]
    assert statement == {
        "Sid": "l",
        "Effect": "Allow",
        "Principal": {"AWS": "arn:aws:iam::111122223333:root"},
        "Action": "SNS:Publish",
        "Resource": topic,
    }
    assert len(json.loads(attribute("Policy"))["Statement"]) == 1


def test_subscription_is_made_once_and_ended(
    sns: Any, topic: str, inbox: Callable[..., Inbox]
) -> None:
    queue = inbox()
    arn = subscribe(sns, topic, queue)

    assert subscribe(sns, topic, queue, RawMessageDelivery="false") == arn
    with pytest.raises(
        ClientError,
        match="Attributes Reason: Subscription already exists with different attributes",
    ):
        subscribe(sns, topic, queue, RawMessageDelivery="true")
    row = {
        "SubscriptionArn": arn,
        "Owner": ACCOUNT,
        "Protocol": "sqs",
        "Endpoint": queue.arn,
        "TopicArn": topic,
    }
    assert sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"] == [row]
    pages = sns.get_paginator("list_subscriptions").paginate()
    assert row in [each for page in pages for each in page["Subscriptions"]]
    found = sns.get_subscription_attributes(SubscriptionArn=arn)["Attributes"]
    assert found == {
        "ConfirmationWasAuthenticated": "true",
        "Endpoint": queue.arn,
        "Owner": ACCOUNT,
        "PendingConfirmation": "false",
        "Protocol": "sqs",
        "RawMessageDelivery": "false",
        "SubscriptionArn": arn,
        "SubscriptionPrincipal": f"arn:aws:iam::{ACCOUNT}:root",
        "TopicArn": topic,
    }
    sns.unsubscribe(SubscriptionArn=arn)
    sns.unsubscribe(SubscriptionArn=arn)
    counts = sns.get_topic_attributes(TopicArn=topic)["Attributes"]
    assert (counts["SubscriptionsConfirmed"], counts["SubscriptionsDeleted"]) == ("0", "1")


@pytest.mark.parametrize(
    ("protocol", "endpoint", "is_confirmed"),
    [
        ("sms", "+15551234567", True),
        ("lambda", f"arn:aws:lambda:us-east-1:{ACCOUNT}:function:f", True),
        ("firehose", f"arn:aws:firehose:us-east-1:{ACCOUNT}:deliverystream/f", True),
        ("application", f"{ARN}:endpoint/APNS/a/b", True),
        ("email", "ann@example.com", False),
        ("email-json", "ann@example.com", False),
    ],
)
def test_message_for_a_protocol_that_takes_none_is_dead_lettered(
    sns: Any,
    topic: str,
    inbox: Callable[..., Inbox],
    protocol: str,
    endpoint: str,
    is_confirmed: bool,
) -> None:
    dead = inbox()
    redrive = {"RedrivePolicy": json.dumps({"deadLetterTargetArn": dead.arn})}
    given = {"TopicArn": topic, "Protocol": protocol, "Endpoint": endpoint, "Attributes": redrive}
    shown = sns.subscribe(**given)["SubscriptionArn"]
    arn = sns.subscribe(**given, ReturnSubscriptionArn=True)["SubscriptionArn"]
    sns.publish(TopicArn=topic, Message="x")

    assert shown == (arn if is_confirmed else "pending confirmation")
    found = sns.get_subscription_attributes(SubscriptionArn=arn)["Attributes"]
    assert found["PendingConfirmation"] == str(not is_confirmed).lower()
    assert [json.loads(each)["Message"] for each in dead.bodies()] == ["x"] * is_confirmed


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("Whatever", "x", "Invalid parameter: AttributeName"),
        (
            "RawMessageDelivery",
            "",
            "Invalid parameter: RawMessageDelivery: Invalid value []. Must be true or false.",
        ),
        (
            "FilterPolicyScope",
            "x",
            "Invalid parameter: FilterPolicyScope: Invalid value [x]. Please use either"
            " MessageBody or MessageAttributes",
        ),
        (
            "RedrivePolicy",
            "{invalid}",
            "Invalid parameter: RedrivePolicy: failed to parse JSON. Unexpected character ('i'"
            " (code 105)): was expecting double-quote to start field name",
        ),
        (
            "FilterPolicy",
            '{"a": "b"}',
            'Invalid parameter: FilterPolicy: "a" must be an object or an array',
        ),
    ],
)
def test_invalid_attribute_of_a_subscription_is_refused(
    sns: Any, topic: str, inbox: Callable[..., Inbox], name: str, value: str, message: str
) -> None:
    arn = subscribe(sns, topic, inbox())

    with pytest.raises(ClientError) as caught:
        sns.set_subscription_attributes(
            SubscriptionArn=arn, AttributeName=name, AttributeValue=value
        )

    assert caught.value.response["Error"]["Message"] == message


def test_pending_subscription_is_confirmed_by_its_token(
    sns: Any, topic: str, broker: NodeProcess, owner: Any
) -> None:
    endpoint = f"http://example.invalid/{next(_number)}"
    pending = sns.subscribe(TopicArn=topic, Protocol="http", Endpoint=endpoint)
    (row,) = sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
    ((token,),) = owner.execute(
        "select token from skipmq.subscription where endpoint = %s", (endpoint,)
    ).fetchall()
    link = f"{broker.url}/?Action=ConfirmSubscription&TopicArn={topic}&Token={token}"
    first, second = raw(link), raw(link)
    (row_now,) = sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
    arn = row_now["SubscriptionArn"]

    def is_authenticated() -> str:
        found = sns.get_subscription_attributes(SubscriptionArn=arn)["Attributes"]
        return str(found["ConfirmationWasAuthenticated"])

    by_link = is_authenticated()
    sns.confirm_subscription(TopicArn=topic, Token=token)
    assert (by_link, is_authenticated()) == ("false", "true")

    assert pending["SubscriptionArn"] == "pending confirmation"
    assert row["SubscriptionArn"] == "PendingConfirmation"
    assert (first.status, second.status) == (200, 200)
    (row,) = sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
    assert f"<SubscriptionArn>{row['SubscriptionArn']}</SubscriptionArn>" in second.body
    ended = raw(f"{broker.url}/?Action=Unsubscribe&SubscriptionArn={row['SubscriptionArn']}")
    assert ended.status == 200
    assert sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"] == []
