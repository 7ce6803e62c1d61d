"""The attributes of queues: which there are, what they may be, and how they are shown.

Source: SQS API Reference, SetQueueAttributes and GetQueueAttributes.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from skipmq import errors, limits
from skipmq.actions import checks, redrive
from skipmq.model import Queue
from skipmq.node import Node
from skipmq.protocol import Call

_DIGITS = 12

# Gives the form in which a value is stored, or None when it is not allowed.
Stored = Callable[[str], str | None]


def _number(least: int, most: int) -> Stored:
    def stored(value: str) -> str | None:
        plain = value.isascii() and value.isdigit() and len(value) <= _DIGITS
        return str(int(value)) if plain and least <= int(value) <= most else None

    return stored


def _one_of(*values: str) -> Stored:
    return lambda value: value.lower() if value.lower() in values else None


def _policy(value: str) -> str | None:
    try:
        content = msgspec.json.decode(value) if value else {}
    except (msgspec.DecodeError, RecursionError):
        return None
    if not isinstance(content, dict) or len(value.encode()) > limits.POLICY_BYTES:
        return None
    statements = content.get("Statement", [])
    listed = statements if isinstance(statements, list) else [statements]
    return value if all(isinstance(each, dict) for each in listed) else None


_SETTABLE: dict[str, Stored] = {
    "DelaySeconds": _number(0, limits.DELAY_SECONDS),
    "MaximumMessageSize": _number(limits.MESSAGE_BYTES_LEAST, limits.MESSAGE_BYTES),
    "MessageRetentionPeriod": _number(limits.RETENTION_LEAST, limits.RETENTION_MOST),
    "ReceiveMessageWaitTimeSeconds": _number(0, limits.WAIT_SECONDS),
    "VisibilityTimeout": _number(0, limits.VISIBILITY_TIMEOUT),
    "Policy": _policy,
    "RedrivePolicy": redrive.policy,
    "RedriveAllowPolicy": redrive.allow_policy,
    "KmsMasterKeyId": str,
    "KmsDataKeyReusePeriodSeconds": _number(limits.KMS_REUSE_LEAST, limits.KMS_REUSE_MOST),
    "SqsManagedSseEnabled": _one_of("true", "false"),
    # SkipMQ's own: what is kept of a settled message.
    "HistoryMode": _one_of("off", "metadata", "full"),
}
_COUNTED = {
    "ApproximateNumberOfMessages": "visible",
    "ApproximateNumberOfMessagesNotVisible": "in_flight",
    "ApproximateNumberOfMessagesDelayed": "delayed",
}
_OWN = {"HistoryMode"}
# Shown only while they differ from the default.
_VANISHING = {
    "Policy": "",
    "RedrivePolicy": "",
    "RedriveAllowPolicy": "",
    "KmsMasterKeyId": "",
    "KmsDataKeyReusePeriodSeconds": "300",
}
_FACTS = {"QueueArn", "CreatedTimestamp", "LastModifiedTimestamp"}
_FIFO_FLAGS = {"ContentBasedDeduplication"}
_FIFO_CHOICES = {"DeduplicationScope", "FifoThroughputLimit"}
_KNOWN = set(_SETTABLE) | set(_COUNTED) | _FACTS | _FIFO_FLAGS | _FIFO_CHOICES | {"FifoQueue"}


def get_queue_attributes(node: Node, call: Call) -> dict[str, Any]:
    """Return the attributes of a queue that were asked for."""
    name = checks.queue_name(call.parameters["QueueUrl"], call.identity)
    names = call.parameters.get("AttributeNames", [])
    for each in names:
        if each != "All" and each not in _KNOWN:
            raise errors.InvalidAttributeName(f"Unknown Attribute {each}.")
    node.forget(name)
    queue = node.queue(name)
    wanted = (_KNOWN - _OWN) | set(names) if "All" in names else set(names)
    shown = _shown(queue)
    if wanted & set(_COUNTED):
        counts = node.messages.count(queue.id)
        shown |= {key: str(getattr(counts, field)) for key, field in _COUNTED.items()}
    result = {key: value for key, value in sorted(shown.items()) if key in wanted}
    return {"Attributes": result} if result else {}


def set_queue_attributes(node: Node, call: Call) -> None:
    """Change attributes of a queue."""
    name = checks.queue_name(call.parameters["QueueUrl"], call.identity)
    wanted = call.parameters["Attributes"]
    changes = stored(wanted)

    def change(queue: Queue) -> None:
        node.queues.set_attributes(queue.id, changes)

    node.on_queue(name, change)
    node.forget(name)


def check_fifo(value: str) -> None:
    """Refuse the attribute FifoQueue: a standard queue does not have it, not even as false."""
    if value == "true":
        raise errors.UnsupportedOperation("SkipMQ does not support FIFO queues yet.")
    raise errors.InvalidAttributeName("Unknown Attribute FifoQueue.")


def stored(attributes: Mapping[str, str]) -> dict[str, str]:
    """Return attributes as they are stored.

    Raises errors.InvalidAttributeName, errors.InvalidAttributeValue, or, of a redrive policy,
    errors.InvalidParameterValueException.
    """
    result = {}
    for name, value in attributes.items():
        if name in _FIFO_CHOICES:
            raise errors.InvalidAttributeName(
                f"You can specify the {name} only when FifoQueue is set to true."
            )
        if name not in _SETTABLE:
            raise errors.InvalidAttributeName(f"Unknown Attribute {name}.")
        form = _SETTABLE[name](value)
        if form is None:
            raise errors.InvalidAttributeValue(f"Invalid value for the parameter {name}.")
        result[name] = form
    return _with_one_encryption(result)


def _with_one_encryption(attributes: dict[str, str]) -> dict[str, str]:
    """Return attributes in which a key of KMS turns the encryption by SQS itself off."""
    if not attributes.get("KmsMasterKeyId"):
        return attributes
    if attributes.get("SqsManagedSseEnabled") == "true":
        raise errors.InvalidAttributeValue(
            "You can use one type of server-side encryption (SSE) at one time."
            " You can either enable KMS SSE or SQS SSE."
        )
    return attributes | {"SqsManagedSseEnabled": "false"}


def _shown(queue: Queue) -> dict[str, str]:
    present = {k: v for k, v in queue.attributes.items() if v != _VANISHING.get(k)}
    return present | {
        "QueueArn": queue.name.arn,
        "CreatedTimestamp": str(queue.created_at),
        "LastModifiedTimestamp": str(queue.modified_at),
    }
