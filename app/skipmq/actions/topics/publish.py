"""Publish messages to topics."""

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, TypeAlias

import msgspec

from skipmq.actions import checks
from skipmq.actions.sqs import messages
from skipmq.actions.topics import names
from skipmq.actions.topics.topics import MAXIMUM_MESSAGE_SIZE
from skipmq.broker import topics
from skipmq.broker.node import Node
from skipmq.broker.topics import Notification, Published, Topic
from skipmq.protocol import limits, requests
from skipmq.protocol.call import Call
from skipmq.protocol.identity import Need, TopicName
from skipmq.protocol.message import forbidden_character, new_uuid
from skipmq.protocol.names import FIFO
from skipmq.protocol.sns import shapes
from skipmq.protocol.sns.errors import (
    AuthorizationError,
    BatchTooLong,
    EmptyBatch,
    IdsNotDistinct,
    InvalidBatchId,
    InvalidParameter,
    NotFound,
    ParameterValueInvalid,
    TooManyEntries,
    ValidationError,
    invalid,
)

_TYPE = re.compile(r"(String|Number|Binary)(\..+)?")
_NAME_CHARACTER = re.compile("[A-Za-z0-9_.-]")
_SUBJECT = re.compile("[^\x00-\x1f\x7f]{1,100}")
_ENTRY_ID = re.compile("[A-Za-z0-9_-]+")
_ENTRY_ID_LENGTH = 80
_STRUCTURE = "Message Structure - "
# Protocols with an address, whose text may be another one than that of queues.
_ADDRESSED = ("http", "https")
# The parameters of Publish, or an entry of PublishBatch.
Outgoing: TypeAlias = shapes.Publish | shapes.PublishBatchRequestEntry


def _target(call: Call[shapes.Publish]) -> TopicName:
    parameters = call.parameters
    if parameters.PhoneNumber:
        raise invalid("PhoneNumber", "SkipMQ sends no SMS")
    if arn := parameters.TopicArn:
        return names.topic(arn, call)
    if parameters.TargetArn is None and arn is None:
        raise invalid("TopicArn or TargetArn", "no value for required parameter")
    if ":endpoint/" in (parameters.TargetArn or ""):
        raise invalid("TargetArn", "No endpoint found for the target arn specified")
    return names.topic(parameters.TargetArn or "", call, "TargetArn" if arn is None else "TopicArn")


def publish_needs(call: Call[shapes.Publish]) -> list[Need]:
    """Return the needs of Publish."""
    return [Need("Publish", _target(call))]


async def publish(node: Node, call: Call[shapes.Publish]) -> shapes.PublishResult:
    """Publish a message."""
    name = _target(call)
    topic = await node.topics.find(name, call.deadline)
    message = _notification(node, call, call.parameters, name, topic)
    if message.size > _limit(topic):
        raise invalid("Message too long")
    (done,) = await _publish(node, call, name, topic, [message])
    return shapes.PublishResult(MessageId=done.message_id, SequenceNumber=_number(done))


async def publish_batch(node: Node, call: Call[shapes.PublishBatch]) -> shapes.PublishBatchResult:
    """Publish up to ten messages."""
    name, entries = names.topic(call.parameters.TopicArn, call), _entries(call)
    topic = await node.topics.find(name, call.deadline)
    sent = [_notification(node, call, each, name, topic) for each in entries]
    if sum(each.size for each in sent) > _limit(topic):
        raise BatchTooLong
    published = await _publish(node, call, name, topic, sent)
    return shapes.PublishBatchResult(
        Successful=[
            shapes.BatchResultEntry(
                Id=entry.Id, MessageId=each.message_id, SequenceNumber=_number(each)
            )
            for entry, each in zip(entries, published, strict=True)
        ],
        Failed=[],
    )


def _entries(call: Call[shapes.PublishBatch]) -> list[shapes.PublishBatchRequestEntry]:
    entries = call.parameters.PublishBatchRequestEntries
    if not entries:
        raise EmptyBatch
    if len(entries) > limits.BATCH_ENTRIES:
        raise TooManyEntries
    for each in entries:
        if len(each.Id) > _ENTRY_ID_LENGTH:
            raise InvalidBatchId(
                f"The Id of a batch entry in the batch request is too long: {each.Id}"
            )
        if not _ENTRY_ID.fullmatch(each.Id):
            raise InvalidBatchId(
                "The Id of a batch entry in the batch request contains an impermissible"
                f" character: {each.Id}"
            )
    if len({each.Id for each in entries}) < len(entries):
        raise IdsNotDistinct
    return entries


async def _publish(
    node: Node, call: Call, name: TopicName, topic: Topic, sent: Sequence[Notification]
) -> list[Published]:
    if call.request.headers.get("x-amz-sns-message-type") is not None:
        raise AuthorizationError("What a topic delivers cannot publish, so that there is no cycle.")
    what = (sent, call.identity.sender, call.deadline)
    try:
        published = await topics.publish(node.database, name, topic.id, *what)
    except NotFound:
        # It may have been created again.
        node.topics.forget(name.arn)
        topic = await node.topics.find(name, call.deadline)
        published = await topics.publish(node.database, name, topic.id, *what)
    for each in published:
        for arn, id_ in zip(each.queues, each.queue_ids, strict=True):
            node.waiters.wake(arn, 1)
            node.notifier.notify(arn, id_)
        if each.dead_lettered:
            node.observer.count("undelivered", ("dead-lettered",), each.dead_lettered)
        if each.dropped:
            node.observer.count("undelivered", ("dropped",), each.dropped)
    return published


def _number(done: Published) -> str | None:
    number = done.sequence_number
    return None if number is None else messages.shown_number(number)


def _limit(topic: Topic) -> int:
    return int(topic.attributes.get("MaximumMessageSize", MAXIMUM_MESSAGE_SIZE))


def _notification(
    node: Node, call: Call, entry: Outgoing, name: TopicName, topic: Topic
) -> Notification:
    """Check a message to publish but for its size in bytes, and return it."""
    if not entry.Message:
        raise invalid("Empty message")
    if entry.Subject is not None and not _SUBJECT.fullmatch(entry.Subject):
        raise invalid("Subject")
    if forbidden_character(entry.Message) is not None:
        raise invalid("Message", "Invalid characters found")
    attributes = entry.MessageAttributes or {}
    for key, value in attributes.items():
        _check_attribute(key, value)
    size = len(entry.Message.encode()) + messages.attributes_size(attributes)
    message, texts = _message(entry)
    return Notification(
        new_uuid(),
        message,
        size,
        entry.Subject,
        _stored(attributes) if attributes else None,
        entry.MessageGroupId,
        _deduplication_id(entry, name, topic),
        messages.trace_header(node, call),
        texts,
    )


def _message(entry: Outgoing) -> tuple[str, str | None]:
    """Return the text for queues, and the JSON of those that addresses get instead, if any."""
    if entry.MessageStructure is None:
        return entry.Message, None
    if entry.MessageStructure != "json":
        raise invalid("MessageStructure")
    try:
        texts = msgspec.json.decode(entry.Message, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise invalid(f"{_STRUCTURE}JSON message body failed to parse") from error
    texts = {key: text for key, text in texts.items() if isinstance(text, str)}
    if (default := texts.get("default")) is None:
        raise invalid(f"{_STRUCTURE}No default entry in JSON message body")
    chosen = [texts.get(protocol, default) for protocol in ("sqs", *_ADDRESSED)]
    if any(forbidden_character(text) is not None for text in chosen):
        raise invalid("Message", "Invalid characters found")
    message, *others = chosen
    if all(text == message for text in others):
        return message, None
    return message, msgspec.json.encode(dict(zip(_ADDRESSED, others, strict=True))).decode()


def _deduplication_id(entry: Outgoing, name: TopicName, topic: Topic) -> str | None:
    """Return the deduplication id of a message; check what its topic's type needs."""
    given, group = entry.MessageDeduplicationId, entry.MessageGroupId
    for value, parameter in ((given, "MessageDeduplicationId"), (group, "MessageGroupId")):
        if value is not None and not checks.IDENTIFIER.fullmatch(value):
            raise invalid(parameter)
    if not name.name.endswith(FIFO):
        if given is not None:
            raise invalid(
                "MessageDeduplicationId",
                "The request includes MessageDeduplicationId parameter that is not valid for this"
                " topic type",
            )
        return None
    if group is None:
        raise invalid("The MessageGroupId parameter is required for FIFO topics")
    if given is None and topic.attributes.get("ContentBasedDeduplication") != "true":
        raise InvalidParameter(
            "Invalid parameter: The topic should either have ContentBasedDeduplication enabled or"
            " MessageDeduplicationId provided explicitly"
        )
    return given or sha256(entry.Message.encode()).hexdigest()


def _stored(attributes: Mapping[str, shapes.AttributeValue]) -> str:
    stored = {
        name: requests.AttributeValue(
            StringValue=value.StringValue, BinaryValue=value.BinaryValue, DataType=value.DataType
        )
        for name, value in attributes.items()
    }
    return msgspec.json.encode(stored).decode()


def _check_attribute(name: str, value: shapes.AttributeValue) -> None:
    _check_name(name)
    type_ = value.DataType
    if not type_:
        raise ValidationError(
            f"1 validation error detected: Value null at 'messageAttributes.{name}.member.dataType'"
            " failed to satisfy constraint: Member must not be null"
        )
    if not _TYPE.fullmatch(type_):
        raise ParameterValueInvalid(
            f"The message attribute '{name}' has an invalid message attribute type, the set of"
            " supported type prefixes is Binary, Number, and String."
        )
    field = "Binary" if type_.startswith("Binary") else "String"
    used, other = value.StringValue, value.BinaryValue
    content: str | bytes | None = used
    if field == "Binary":
        content, other = value.BinaryValue, None if used is None else used.encode()
    if content is None and other is not None:
        raise ParameterValueInvalid(
            f"The message attribute '{name}' with type '{type_}' must use field '{field}'."
        )
    if not content:
        raise ParameterValueInvalid(
            f"The message attribute '{name}' must contain non-empty message attribute value for"
            f" message attribute type '{type_}'."
        )
    if type_.startswith("Number") and not checks.is_number(used or ""):
        raise ParameterValueInvalid(f"Could not cast message attribute '{name}' value to number.")
    if used is not None and forbidden_character(used) is not None:
        raise invalid("MessageAttributes", "Invalid characters found")


def _check_name(name: str) -> None:
    if not 1 <= len(name) <= limits.ATTRIBUTE_NAME_LENGTH:
        text = "Length of message attribute name must be less than 256 bytes."
        raise ParameterValueInvalid(text)
    for place, where in ((0, "starting"), (-1, "ending")):
        if name[place] == ".":
            text = f"Invalid message attribute name {where} with character '.' was found."
            raise ParameterValueInvalid(text)
    for character in name:
        if not _NAME_CHARACTER.fullmatch(character):
            raise ParameterValueInvalid(
                f"Invalid non-alphanumeric character '#x{ord(character):X}' was found in the"
                " message attribute name. Can only include alphanumeric characters, hyphens,"
                " underscores, or dots."
            )
    if ".." in name:
        text = "Message attribute name can not have successive '.' character."
        raise ParameterValueInvalid(text)
