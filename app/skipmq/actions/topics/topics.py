"""Create, delete and list topics; their attributes, tags and policies."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from skipmq.actions import paging
from skipmq.actions.sqs.permissions import allowing
from skipmq.actions.topics import names
from skipmq.auth.policy import parse
from skipmq.broker import topics
from skipmq.broker.deliveries import TopicPolicy, effective_delivery
from skipmq.broker.node import Node
from skipmq.broker.topics import Topic
from skipmq.protocol import errors, limits
from skipmq.protocol.call import Call
from skipmq.protocol.identity import Need, TopicName
from skipmq.protocol.names import FIFO
from skipmq.protocol.sns import shapes
from skipmq.protocol.sns.errors import (
    NotFound,
    ResourceNotFound,
    TagLimitExceeded,
    invalid,
)

_MESSAGE_BYTES = re.compile("[0-9]{4,7}")
_TRIES = 50
MAXIMUM_MESSAGE_SIZE = 262_144
_FEEDBACK = {
    f"{protocol}{kind}"
    for protocol in ("Application", "Firehose", "HTTP", "Lambda", "SQS")
    for kind in ("SuccessFeedbackRoleArn", "SuccessFeedbackSampleRate", "FailureFeedbackRoleArn")
}
_OWNERS_ACTIONS = (
    "GetTopicAttributes",
    "SetTopicAttributes",
    "AddPermission",
    "RemovePermission",
    "DeleteTopic",
    "Subscribe",
    "ListSubscriptionsByTopic",
    "Publish",
)
_GRANTABLE = {*_OWNERS_ACTIONS, "ListTagsForResource", "TagResource", "UntagResource"}


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _is_policy(text: str) -> bool:
    if len(text.encode()) > 30_720:  # noqa: PLR2004 - SNS's quota.
        return False
    try:
        parse(text, of_queue=True)
    except ValueError as error:
        raise invalid("Policy Error", str(error)) from error
    return True


def _is_json_of(type_: Any) -> Callable[[str], bool]:
    def is_json(text: str) -> bool:
        try:
            msgspec.json.decode(text, type=type_)
        except (msgspec.DecodeError, RecursionError):
            return False
        return True

    return is_json


def _is_bool(text: str) -> bool:
    return text in ("true", "false")


def _is_size(text: str) -> bool:
    return bool(_MESSAGE_BYTES.fullmatch(text)) and (
        limits.MINIMUM_MESSAGE_BYTES <= int(text) <= limits.MESSAGE_BYTES
    )


# Whether a value is allowed; empty ones reset these to their defaults.
_ALLOWED: dict[str, Callable[[str], bool]] = {
    "ArchivePolicy": _is_json_of(dict[str, Any]),
    "ContentBasedDeduplication": _is_bool,
    "DeliveryPolicy": _is_json_of(TopicPolicy),
    "DisplayName": lambda text: len(text) <= 100,  # noqa: PLR2004 - characters.
    "FifoThroughputScope": lambda text: text in ("Topic", "MessageGroup"),
    "KmsMasterKeyId": lambda text: len(text) <= limits.KMS_KEY_ID_LENGTH,
    "MaximumMessageSize": _is_size,
    "Policy": _is_policy,
    "SignatureVersion": lambda text: text in ("1", "2"),
    "TracingConfig": lambda text: text in ("PassThrough", "Active"),
    **dict.fromkeys(_FEEDBACK, lambda text: len(text) <= limits.KMS_KEY_ID_LENGTH),
}


def new_topic_needs(call: Call) -> list[Need]:
    """Return the needs of CreateTopic."""
    identity = call.identity
    return [Need("CreateTopic", TopicName(identity.account, identity.region, call.parameters.Name))]


def _check(attributes: Mapping[str, str], is_fifo: bool) -> None:
    """Check the attributes of a new topic."""
    if attributes.get("ContentBasedDeduplication") == "true" and not is_fifo:
        text = "Content-based deduplication can only be set for FIFO topics"
        raise invalid("Attributes", text)
    for key, value in attributes.items():
        if key not in _ALLOWED:
            raise invalid("Attributes", f"Unknown attribute {errors.shown(key)}")
        if not _ALLOWED[key](value):
            raise invalid("Attributes", f"{key}: Invalid value")


async def create_topic(node: Node, call: Call[shapes.CreateTopic]) -> shapes.TopicArnResult:
    """Create a topic, or return that of the name if what is given does not differ."""
    parameters, identity = call.parameters, call.identity
    given = parameters.Attributes or {}
    is_fifo = given.get("FifoTopic", "false").lower() == "true"
    name = TopicName(identity.account, identity.region, parameters.Name)
    if not names.is_valid(name.name) or is_fifo != name.name.endswith(FIFO):
        raise invalid("Topic Name")
    attributes = {key: value for key, value in given.items() if key != "FifoTopic"}
    if parameters.DataProtectionPolicy:
        raise invalid("DataProtectionPolicy", "SkipMQ has no data protection policies")
    _check(attributes, is_fifo)
    tags = _tags(parameters.Tags or [])
    if len(tags) > limits.TAGS:
        raise TagLimitExceeded
    topic, is_new = await topics.create(node.database, name, attributes, tags, call.deadline)
    if is_new:
        node.topics.changed(name, topic.id)
    else:
        # Compared with what is set, and these defaults.
        present = {"DisplayName": "", "ContentBasedDeduplication": "false", **topic.attributes}
        if any(present.get(key) != value for key, value in attributes.items()):
            raise invalid("Attributes", "Topic already exists with different attributes")
        if any(topic.tags.get(key) != value for key, value in tags.items()):
            raise invalid("Tags", "Topic already exists with different tags")
    return shapes.TopicArnResult(TopicArn=name.arn)


async def delete_topic(node: Node, call: Call[shapes.DeleteTopic]) -> None:
    """Delete a topic with its subscriptions; one that does not exist is none."""
    name = names.topic(call.parameters.TopicArn, call)
    await topics.delete(node.database, name, call.deadline)
    node.topics.changed(name)


async def list_topics(node: Node, call: Call[shapes.ListTopics]) -> shapes.TopicsResult:
    """Return a page of the topics of the caller's account."""
    account, region = call.identity.account, call.identity.region
    found = await topics.names(node.database, account, region, paging.after(call), call.deadline)
    page = found[: topics.LISTED]
    return shapes.TopicsResult(
        Topics=[shapes.Topic(TopicArn=TopicName(account, region, each).arn) for each in page],
        NextToken=paging.token(page[-1]) if len(found) > len(page) else None,
    )


async def get_topic_attributes(
    node: Node, call: Call[shapes.GetTopicAttributes]
) -> shapes.AttributesResult:
    """Return the attributes of a topic."""
    name = names.topic(call.parameters.TopicArn, call)
    topic = await topics.find(node.database, name, call.deadline, counts=True)
    is_fifo = name.name.endswith(FIFO)
    return shapes.AttributesResult(
        Attributes={
            "TopicArn": name.arn,
            "Owner": name.account,
            "DisplayName": "",
            "SubscriptionsConfirmed": str(topic.confirmed),
            "SubscriptionsDeleted": str(topic.deleted),
            "SubscriptionsPending": str(topic.pending),
            "EffectiveDeliveryPolicy": _json(effective_delivery(topic.attributes)),
            "Policy": _default_policy(name),
            **({"FifoTopic": "true", "ContentBasedDeduplication": "false"} if is_fifo else {}),
            **topic.attributes,
        }
    )


async def set_topic_attributes(node: Node, call: Call[shapes.SetTopicAttributes]) -> None:
    """Set an attribute of a topic."""
    name = names.topic(call.parameters.TopicArn, call)
    key, value = call.parameters.AttributeName, call.parameters.AttributeValue or ""
    topic = await topics.find(node.database, name, call.deadline)
    is_fifo = name.name.endswith(FIFO)
    if key not in _ALLOWED or (key == "ContentBasedDeduplication" and not is_fifo):
        raise invalid("AttributeName")
    if value and not _ALLOWED[key](value):
        raise invalid(key)
    await _change(node, call, name, topic, attributes={key: value or None})


async def _change(node: Node, call: Call, name: TopicName, topic: Topic, **changes: Any) -> bool:
    changed = await topics.change(node.database, topic, call.deadline, **changes)
    node.topics.changed(name, topic.id)
    return changed


def _default_policy(name: TopicName) -> str:
    statement = {
        "Sid": "__default_statement_ID",
        "Effect": "Allow",
        "Principal": {"AWS": "*"},
        "Action": [f"SNS:{each}" for each in _OWNERS_ACTIONS],
        "Resource": name.arn,
        "Condition": {"StringEquals": {"AWS:SourceOwner": name.account}},
    }
    head = {"Version": "2008-10-17", "Id": "__default_policy_ID"}
    return _json(head | {"Statement": [statement]})


def _tags(given: Sequence[shapes.Tag]) -> dict[str, str]:
    tags = {each.Key: each.Value for each in given}
    if len(tags) < len(given):
        raise invalid("Duplicated keys are not allowed.")
    for key, value in tags.items():
        if not 1 <= len(key) <= limits.TAG_KEY_LENGTH or len(value) > limits.TAG_VALUE_LENGTH:
            raise invalid("Tags", "A key has 1 to 128 characters, and a value at most 256")
    return tags


async def _resource(node: Node, call: Call) -> tuple[TopicName, Topic]:
    name = names.resource(call)
    try:
        return name, await topics.find(node.database, name, call.deadline)
    except NotFound as error:
        raise ResourceNotFound from error


async def tag_resource(node: Node, call: Call[shapes.TagResource]) -> shapes.NoResult:
    """Add tags to a topic; replace those with the same key."""
    tags = _tags(call.parameters.Tags)
    name, topic = await _resource(node, call)
    if len({*topic.tags, *tags}) > limits.TAGS:
        raise TagLimitExceeded
    await _change(node, call, name, topic, tags=tags)
    return shapes.NoResult()


async def untag_resource(node: Node, call: Call[shapes.UntagResource]) -> shapes.NoResult:
    """Remove tags from a topic by their keys; ignore keys that it does not have."""
    name, topic = await _resource(node, call)
    await _change(node, call, name, topic, removed=call.parameters.TagKeys)
    return shapes.NoResult()


async def list_tags_for_resource(
    node: Node, call: Call[shapes.ListTagsForResource]
) -> shapes.TagsResult:
    """Return the tags of a topic."""
    _, topic = await _resource(node, call)
    return shapes.TagsResult(
        Tags=[shapes.Tag(Key=key, Value=value) for key, value in topic.tags.items()]
    )


async def add_topic_permission(node: Node, call: Call[shapes.AddTopicPermission]) -> None:
    """Add a statement that allows accounts to use a topic."""
    parameters = call.parameters
    actions, accounts = parameters.ActionName, parameters.AWSAccountId
    if not actions or not {*actions} <= _GRANTABLE:
        raise invalid("Policy statement action out of service scope!")
    if not accounts or not all(map(limits.ACCOUNT.fullmatch, accounts)):
        raise invalid("AWSAccountId")
    scoped = [f"SNS:{action}" for action in actions]
    statement = allowing(parameters.Label, accounts, scoped, parameters.TopicArn)

    def add(statements: list[Any]) -> list[Any]:
        if any(each.get("Sid") == parameters.Label for each in statements):
            raise invalid("Statement already exists")
        return [*statements, statement]

    await _change_policy(node, call, add)


async def remove_topic_permission(node: Node, call: Call[shapes.RemoveTopicPermission]) -> None:
    """Remove the statement with a label from a topic's policy."""
    label = call.parameters.Label
    await _change_policy(node, call, lambda given: [s for s in given if s.get("Sid") != label])


async def _change_policy(node: Node, call: Call, change: Callable[[list[Any]], list[Any]]) -> None:
    """Change the statements of a topic's policy; retry if it was changed meanwhile."""
    name = names.topic(call.parameters.TopicArn, call)
    for _ in range(_TRIES):
        topic = await topics.find(node.database, name, call.deadline)
        old = topic.attributes.get("Policy", "")
        document = msgspec.json.decode(old or _default_policy(name))
        present = document.get("Statement", [])
        statements = change(present if isinstance(present, list) else [present])
        new = _json(document | {"Statement": statements})
        _is_policy(new)
        if await _change(node, call, name, topic, attributes={"Policy": new}, old_policy=old):
            return
    raise errors.ThrottlingException
