"""GetQueueAttributes and SetQueueAttributes, and the validation of attributes.

Source: SQS API Reference, SetQueueAttributes and GetQueueAttributes.
"""

from collections.abc import Callable, Mapping

import msgspec

from skipmq.actions import checks, regions
from skipmq.actions.sqs import redrive
from skipmq.auth.policy import parse
from skipmq.broker import statistics
from skipmq.broker.node import Node
from skipmq.broker.queues import Queue
from skipmq.protocol import answers, body_schemas, errors, limits, requests
from skipmq.protocol.call import Call
from skipmq.protocol.queue_attributes import ATTRIBUTES, OURS, PAUSED, RetryBackoff


def _invalid(name: str, reason: str = "") -> errors.InvalidAttributeValue:
    text = f"Invalid value for the parameter {name}."
    return errors.InvalidAttributeValue(f"{text} Reason: {reason}" if reason else text)


def _policy(value: str) -> str | None:
    if not value:
        return value
    checks.policy_size(len(value.encode()), ())
    try:
        parse(value, of_queue=True)
    except ValueError as error:
        raise _invalid("Policy", f"{error}.") from error
    statements = msgspec.json.decode(value).get("Statement", [])
    checks.policy_size(
        len(value.encode()), statements if isinstance(statements, list) else [statements]
    )
    return value


def _body_schema(value: str) -> str:
    reason = ""
    if len(value.encode()) > limits.BODY_SCHEMA_BYTES:
        reason = f"A schema can have at most {limits.BODY_SCHEMA_BYTES} bytes"
    elif value:
        try:
            body_schemas.read(value)
        except body_schemas.SchemaError as error:
            reason = str(error)
    if reason:
        raise _invalid("BodySchema", f"{reason}.")
    return value


def _retry_backoff(value: str) -> str:
    if not value:
        return value
    try:
        backoff = msgspec.json.decode(value, type=RetryBackoff)
    except msgspec.DecodeError as error:
        example = '{"base": 10, "factor": 2, "maximum": 3600, "jitter": 0.1}'
        raise _invalid("RetryBackoff", f"{error}. An example is {example}.") from error
    numbers = msgspec.structs.asdict(backoff).items()
    whole = {name: int(each) if each == int(each) else each for name, each in numbers}
    return msgspec.json.encode(whole).decode()


# Functions that return a value in its stored form, or None if it is not allowed.
_SPECIAL: dict[str, Callable[[str], str | None]] = {
    "Policy": _policy,
    "RedrivePolicy": redrive.policy,
    "RedriveAllowPolicy": redrive.allow_policy,
    "BodySchema": _body_schema,
    "RetryBackoff": _retry_backoff,
    "KmsMasterKeyId": lambda text: text if len(text) <= limits.KMS_KEY_ID_LENGTH else None,
}
_COUNTED = {
    "ApproximateNumberOfMessages": "visible",
    "ApproximateNumberOfMessagesNotVisible": "in_flight",
    "ApproximateNumberOfMessagesDelayed": "delayed",
}
# Omitted at their defaults; the reuse period is shown with any KMS key.
_REUSE = "KmsDataKeyReusePeriodSeconds"
_LIMITS = {name for name, attribute in ATTRIBUTES.items() if attribute.allowed.is_limit}
_DEFAULTS = {name: attribute.default for name, attribute in ATTRIBUTES.items()}
# Those of ours that All returns where they are set.
_IF_SET = {"MaximumDelaySeconds", "DeduplicationSeconds", "RetryBackoff"}
_HIDDEN_BY_DEFAULT = {*_SPECIAL, *_LIMITS, _REUSE}
_FIXED = {"FifoQueue", "QueueArn", "CreatedTimestamp", "LastModifiedTimestamp"}
_FIFO_CHOICES = {"DeduplicationScope", "FifoThroughputLimit"}
_ALL = {*ATTRIBUTES, *_COUNTED, *_FIXED, *PAUSED}


async def get_queue_attributes(
    node: Node, call: Call[requests.GetQueueAttributes], queue: Queue
) -> answers.GetQueueAttributesResult:
    """Return the attributes of a queue that AttributeNames selects."""
    names = call.parameters.AttributeNames or []
    for each in names:
        if each != "All" and each not in _ALL:
            raise checks.unknown_attribute(each)
    shown, selected = _shown(queue), set(names)
    if "All" in names:
        are_set = {each for each in _IF_SET & shown.keys() if shown[each] != _DEFAULTS[each]}
        selected |= _ALL.difference(OURS, PAUSED) | are_set
    if selected & set(_COUNTED):
        counts = await statistics.count(node.database, queue.id, call.deadline)
        shown |= {key: str(getattr(counts, field)) for key, field in _COUNTED.items()}
    result = {key: value for key, value in sorted(shown.items()) if key in selected}
    return answers.GetQueueAttributesResult(Attributes=result or None)


async def set_queue_attributes(
    node: Node, call: Call[requests.SetQueueAttributes], queue: Queue
) -> None:
    """Set attributes of a queue."""
    changes: Mapping[str, str] = stored(call.parameters.Attributes, fifo=queue.fifo)
    await check_replication(node, changes, call.deadline)
    changes = await regions.with_own_arns(node, call, changes)
    if "Paused" in changes:
        changes = {**changes, "PausedBy": call.identity.shown_name}
    await node.queues.set_attributes(queue, changes, call.deadline)


def is_fifo(attributes: Mapping[str, str]) -> bool:
    """Return whether attributes are those of a FIFO queue.

    Raises errors.InvalidAttributeName for a FifoQueue of false, as SQS does.
    """
    value = attributes.get("FifoQueue", "").lower()
    if value == "false":
        raise checks.unknown_attribute("FifoQueue")
    if value != "true" and "FifoQueue" in attributes:
        raise _invalid("FifoQueue")
    return value == "true"


def stored(attributes: Mapping[str, str], *, fifo: bool) -> dict[str, str]:
    """Return attributes in the form in which they are stored.

    Raises errors.InvalidAttributeName, errors.InvalidAttributeValue, and for a redrive policy
    errors.InvalidParameterValueException.
    """
    result = {}
    for name, value in attributes.items():
        if name in _FIFO_CHOICES and not fifo:
            raise errors.InvalidAttributeName(
                f"You can specify the {name} only when FifoQueue is set to true."
            )
        if name == "FifoQueue" and fifo:
            result[name] = _fifo_queue(value)
            continue
        attribute = ATTRIBUTES.get(name)
        if attribute is None or (attribute.allowed.fifo and not fifo):
            raise checks.unknown_attribute(name)
        if attribute.allowed.standard and fifo:
            raise errors.InvalidAttributeName(f"You can specify {name} only for a standard queue.")
        form = _SPECIAL.get(name, attribute.stored)(value)
        if form is None:
            raise _invalid(name, f"Must be {attribute.range}." if name in _LIMITS else "")
        result[name] = form
    return _with_one_encryption(result)


def _fifo_queue(value: str) -> str:
    if value.lower() != "true":
        raise _invalid("FifoQueue", "Modifying queue type is not supported.")
    return "true"


async def check_replication(node: Node, stored: Mapping[str, str], deadline: float) -> None:
    """Raise errors.InvalidAttributeValue if the cluster does not support the ReplicationMode."""
    if mode := stored.get("ReplicationMode"):
        refuses = node.settings.refuses_unreplicated
        await node.replication.check(mode, deadline, refuses=refuses)


def _with_one_encryption(attributes: dict[str, str]) -> dict[str, str]:
    """Return the attributes, with the other type of encryption off if they set one."""
    is_managed = attributes.get("SqsManagedSseEnabled") == "true"
    if not attributes.get("KmsMasterKeyId"):
        return attributes | {"KmsMasterKeyId": ""} if is_managed else attributes
    if is_managed:
        raise errors.InvalidAttributeValue(
            "You can use one type of server-side encryption (SSE) at one time."
            " You can either enable KMS SSE or SQS SSE."
        )
    return attributes | {"SqsManagedSseEnabled": "false"}


def _shown(queue: Queue) -> dict[str, str]:
    texts = queue.attributes.texts(fifo=queue.fifo)
    shown = {
        name: text
        for name, text in texts.items()
        if name not in _HIDDEN_BY_DEFAULT or text != _DEFAULTS[name]
    }
    if "KmsMasterKeyId" in shown:
        shown[_REUSE] = texts[_REUSE]
    if queue.fifo:
        shown["FifoQueue"] = "true"
    if queue.attributes.paused:
        shown["PausedBy"] = queue.attributes.paused_by
        shown["PausedTimestamp"] = str(queue.attributes.paused_timestamp)
    return shown | {
        "QueueArn": queue.name.arn,
        "CreatedTimestamp": str(queue.created_at),
        "LastModifiedTimestamp": str(queue.modified_at),
    }
