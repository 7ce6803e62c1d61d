"""Requests on topics that write, as those of `writes`."""

from collections.abc import Callable
from functools import partial
from typing import Any

from support.http import client
from support.shop import ACCOUNT, Shop
from support.sql import number
from support.write import Act, Write

_TAG = [{"Key": "team", "Value": "tea"}]
_TOKEN = "51" * 144


def _on_topic(action: str, arn: str = "TopicArn", **parameters: Any) -> Callable[[Shop], Act]:
    """Return what prepares a request on a topic with a queue that is subscribed to it."""

    def prepare(shop: Shop) -> Act:
        shop.fill()
        sns = client(shop.url, "query", service="sns")
        topic = sns.create_topic(Name=shop.name, Tags=_TAG)["TopicArn"]
        subscription = sns.subscribe(
            TopicArn=topic, Protocol="sqs", Endpoint=f"arn:aws:sqs:us-east-1:{ACCOUNT}:{shop.name}"
        )["SubscriptionArn"]
        if action == "confirm_subscription":
            shop.owner.execute(
                "update skipmq.subscription set confirmed = false, token = %s where name = %s",
                (_TOKEN + f"{hash(shop.name) & 0xFFFF:04x}", shop.name),
            )
            parameters["Token"] = _TOKEN + f"{hash(shop.name) & 0xFFFF:04x}"
        elif action == "remove_permission":
            sns.add_permission(
                TopicArn=topic, Label="tea", AWSAccountId=[ACCOUNT], ActionName=["Publish"]
            )
        name = subscription if arn == "SubscriptionArn" else topic
        return partial(getattr(sns, action), **{arn: name}, **parameters)

    return prepare


def _create(shop: Shop) -> Act:
    sns = client(shop.url, "query", service="sns")
    return lambda: sns.create_topic(Name=shop.name)


def _count(condition: str, expected: int = 1) -> Callable[[Shop, Any], bool]:
    query = (
        "select count(*) from skipmq.topic t left join skipmq.subscription s using (topic_id)"
        f" where t.name = %s and {condition}"
    )
    return lambda shop, _: number(shop.owner, query, shop.name) == expected


_POLICY = "t.attributes ->> 'Policy' like '%%\"tea\"%%'"
_ENTRIES = [{"Id": each, "Message": each} for each in ("a", "b")]
_CHANGE, _OF_SUBSCRIPTION = "skipmq.change_topic(", "skipmq.change_subscription("
_PUBLISH = "skipmq.publish_messages("


def _sent(count: int) -> Callable[[Shop, Any], bool]:
    return lambda shop, _: shop.count() == count


OF_TOPICS = [
    Write("CreateTopic", "skipmq.create_topic(", _create, _count("true")),
    Write("DeleteTopic", "skipmq.delete_topic(", _on_topic("delete_topic"), _count("true", 0)),
    Write(
        "SetTopicAttributes",
        _CHANGE,
        _on_topic("set_topic_attributes", AttributeName="DisplayName", AttributeValue="x"),
        _count("t.attributes ? 'DisplayName'"),
        repeats=False,
    ),
    Write(
        "TagResource",
        _CHANGE,
        _on_topic("tag_resource", "ResourceArn", Tags=[{"Key": "new", "Value": ""}]),
        _count("t.tags ? 'new'"),
        repeats=False,
    ),
    Write(
        "UntagResource",
        _CHANGE,
        _on_topic("untag_resource", "ResourceArn", TagKeys=["team"]),
        _count("not t.tags ? 'team'"),
        repeats=False,
    ),
    Write(
        "AddTopicPermission",
        _CHANGE,
        _on_topic("add_permission", Label="tea", AWSAccountId=[ACCOUNT], ActionName=["Publish"]),
        _count(_POLICY),
        repeats=False,
    ),
    Write(
        "RemoveTopicPermission",
        _CHANGE,
        _on_topic("remove_permission", Label="tea"),
        _count(f"not {_POLICY}"),
        repeats=False,
    ),
    Write(
        "Subscribe",
        "skipmq.subscribe(",
        _on_topic("subscribe", Protocol="http", Endpoint="http://example.invalid/"),
        _count("s.protocol = 'http'"),
    ),
    Write(
        "SetSubscriptionAttributes",
        _OF_SUBSCRIPTION,
        _on_topic(
            "set_subscription_attributes",
            "SubscriptionArn",
            AttributeName="RawMessageDelivery",
            AttributeValue="true",
        ),
        _count("s.raw"),
    ),
    Write(
        "ConfirmSubscription",
        _OF_SUBSCRIPTION,
        _on_topic("confirm_subscription"),
        _count("s.confirmed"),
    ),
    Write(
        "Unsubscribe",
        _OF_SUBSCRIPTION,
        _on_topic("unsubscribe", "SubscriptionArn"),
        _count("s.topic_id is not null", 0),
    ),
    Write("Publish", _PUBLISH, _on_topic("publish", Message="x"), _sent(1), repeats=False),
    Write(
        "PublishBatch",
        _PUBLISH,
        _on_topic("publish_batch", PublishBatchRequestEntries=_ENTRIES),
        _sent(2),
        repeats=False,
    ),
]
