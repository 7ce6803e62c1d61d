"""The attributes of queues: which there are, what they may be, and how they are shown.

Source: SQS API Reference, SetQueueAttributes and GetQueueAttributes.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from skipmq import errors, limits
from skipmq.actions import checks, redrive
from skipmq.auth import parse
from skipmq.model import Queue
from skipmq.node import Node
from skipmq.protocol import Call, requests

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


def _choice(*values: str) -> Stored:
    return lambda value: value if value in values else None


def _policy(value: str) -> str | None:
    if not value:
        return value
    checks.policy_size(len(value.encode()), ())
    try:
        parse(value, of_queue=True)
    except ValueError as error:
        raise errors.InvalidAttributeValue(
            f"Invalid value for the parameter Policy. Reason: {error}."
        ) from error
    statements = msgspec.json.decode(value).get("Statement", [])
    checks.policy_size(
        len(value.encode()), statements if isinstance(statements, list) else [statements]
    )
    return value


_SETTABLE: dict[str, Stored] = {
    "DelaySeconds": _number(0, limits.DELAY_SECONDS),
    "MaximumMessageSize": _number(limits.MESSAGE_BYTES_LEAST, limits.MESSAGE_BYTES),
    "MessageRetentionPeriod": _number(limits.RETENTION_LEAST, limits.RETENTION_MOST),
    "ReceiveMessageWaitTimeSeconds": _number(0, limits.WAIT_SECONDS),
    "VisibilityTimeout": _number(0, limits.VISIBILITY_TIMEOUT),
    "Policy": _policy,
    "RedrivePolicy": redrive.policy,
    "RedriveAllowPolicy": redrive.allow_policy,
    "KmsMasterKeyId": lambda value: value if len(value) <= limits.KMS_KEY_ID_LENGTH else None,
    "KmsDataKeyReusePeriodSeconds": _number(limits.KMS_REUSE_LEAST, limits.KMS_REUSE_MOST),
    "SqsManagedSseEnabled": _one_of("true", "false"),
    # SkipMQ's own: what is kept of a settled message.
    "HistoryMode": _one_of("off", "metadata", "full"),
    # SkipMQ's own: how many other servers a send waits for.
    "ReplicationMode": _one_of("none", "any", "majority", "all"),
}
_COUNTED = {
    "ApproximateNumberOfMessages": "visible",
    "ApproximateNumberOfMessagesNotVisible": "in_flight",
    "ApproximateNumberOfMessagesDelayed": "delayed",
}
_OWN = {"HistoryMode", "ReplicationMode"}
# Shown with a key of KMS, even the default.
_REUSE = "KmsDataKeyReusePeriodSeconds"
# Shown only while they differ from the default.
_VANISHING = {
    "Policy": "",
    "RedrivePolicy": "",
    "RedriveAllowPolicy": "",
    "KmsMasterKeyId": "",
    _REUSE: "300",
}
_FACTS = {"QueueArn", "CreatedTimestamp", "LastModifiedTimestamp"}
# What FIFO queues have besides. FifoQueue is fixed when the queue is made.
_FIFO: dict[str, Stored] = {
    "FifoQueue": _one_of("true"),
    "ContentBasedDeduplication": _one_of("true", "false"),
    "DeduplicationScope": _choice("queue", "messageGroup"),
    "FifoThroughputLimit": _choice("perQueue", "perMessageGroupId"),
}
_FIFO_CHOICES = {"DeduplicationScope", "FifoThroughputLimit"}
_KNOWN = set(_SETTABLE) | set(_COUNTED) | _FACTS | set(_FIFO)


async def get_queue_attributes(
    node: Node, call: Call[requests.GetQueueAttributes], queue: Queue
) -> dict[str, Any]:
    """Return the attributes of a queue that were asked for."""
    names = call.parameters.AttributeNames or []
    for each in names:
        if each != "All" and each not in _KNOWN:
            raise checks.unknown_attribute(each)
    wanted = (_KNOWN - _OWN) | set(names) if "All" in names else set(names)
    shown = _shown(queue)
    if wanted & set(_COUNTED):
        counts = await node.messages.count(queue.id, call.deadline)
        shown |= {key: str(getattr(counts, field)) for key, field in _COUNTED.items()}
    result = {key: value for key, value in sorted(shown.items()) if key in wanted}
    return {"Attributes": result} if result else {}


async def set_queue_attributes(
    node: Node, call: Call[requests.SetQueueAttributes], queue: Queue
) -> None:
    """Change attributes of a queue."""
    changes = stored(call.parameters.Attributes, fifo=queue.fifo)
    await check_replication(node, changes, call.deadline)
    await node.queues.set_attributes(queue, changes, call.deadline)


def is_fifo(attributes: Mapping[str, str]) -> bool:
    """Tell whether a queue of these attributes is to be a FIFO queue.

    Raises errors.InvalidAttributeName: a standard queue has no FifoQueue, not even a false one.
    """
    value = attributes.get("FifoQueue", "").lower()
    if value == "false":
        raise checks.unknown_attribute("FifoQueue")
    if value != "true" and "FifoQueue" in attributes:
        raise errors.InvalidAttributeValue("Invalid value for the parameter FifoQueue.")
    return value == "true"


def stored(attributes: Mapping[str, str], *, fifo: bool) -> dict[str, str]:
    """Return attributes as they are stored.

    Raises errors.InvalidAttributeName, errors.InvalidAttributeValue, or, of a redrive policy,
    errors.InvalidParameterValueException.
    """
    settable = _SETTABLE | _FIFO if fifo else _SETTABLE
    result = {}
    for name, value in attributes.items():
        if name in _FIFO_CHOICES and not fifo:
            raise errors.InvalidAttributeName(
                f"You can specify the {name} only when FifoQueue is set to true."
            )
        if name not in settable:
            raise checks.unknown_attribute(name)
        form = settable[name](value)
        if form is None and name == "FifoQueue":
            raise errors.InvalidAttributeValue(
                "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not"
                " supported."
            )
        if form is None:
            raise errors.InvalidAttributeValue(f"Invalid value for the parameter {name}.")
        result[name] = form
    return _with_one_encryption(result)


async def check_replication(node: Node, stored: Mapping[str, str], deadline: float) -> None:
    """Raise errors.InvalidAttributeValue where the cluster does not give what a queue asks for."""
    if mode := stored.get("ReplicationMode"):
        refuses = node.settings.refuses_unreplicated
        await node.replication.check(mode, deadline, refuses=refuses)


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
    if "KmsMasterKeyId" in present:
        present[_REUSE] = queue.attributes[_REUSE]
    return present | {
        "QueueArn": queue.name.arn,
        "CreatedTimestamp": str(queue.created_at),
        "LastModifiedTimestamp": str(queue.modified_at),
    }
