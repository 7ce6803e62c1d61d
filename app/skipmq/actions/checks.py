"""Checks of request parameters, with the error texts of SQS.

Source: SQS API Reference and the SQS Developer Guide's quotas.
"""

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias

from skipmq.broker.inspection import Reference
from skipmq.protocol import errors, extensions, limits, message, names, requests
from skipmq.protocol.identity import Identity, QueueName
from skipmq.protocol.requests import AttributeValue

Paged: TypeAlias = (
    extensions.GetAccessKeyRights | extensions.ListDeadLetterQueues | extensions.ListQueueStatistics
)
Entry: TypeAlias = (
    requests.ChangeMessageVisibilityBatchRequestEntry
    | requests.DeleteMessageBatchRequestEntry
    | requests.SendMessageBatchRequestEntry
)

# The longest URL that is parsed, and the longest that is cached.
_LONGEST_URL, LONGEST_CACHED = 2_000, 400
_ENTRY_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")
_ATTRIBUTE_NAME = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
IDENTIFIER = re.compile(r"[!-~]{1,128}")
_MESSAGE_ID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_REFERENCE = re.compile("[0-9]{1,18}-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_RESERVED = ("aws.", "amazon.")
_KINDS = ("String", "Number", "Binary")
# The default size of a page, and the largest offset.
_PAGE, _MAXIMUM_OFFSET = 50, 10_000_000


def unknown_attribute(name: str) -> errors.SqsError:
    """Return the error for an attribute that does not exist."""
    return errors.InvalidAttributeName(f"Unknown Attribute {errors.shown(name)}.")


def message_reference(value: str, parameter: str) -> Reference:
    """Return what a MessageReference of PeekMessages names.

    Raises errors.InvalidParameterValueException.
    """
    if not _REFERENCE.fullmatch(value):
        raise errors.invalid(value, parameter, "Must be a MessageReference from PeekMessages.")
    number, message_id = value.split("-", 1)
    return Reference(int(number), message_id)


def named_message(value: str, parameter: str) -> tuple[int | None, str]:
    """Return the number, if known, and the ID of a message that its reference or its ID names."""
    return (None, value) if _MESSAGE_ID.fullmatch(value) else message_reference(value, parameter)


def queue_name(url: str, identity: Identity) -> QueueName:
    """Return the queue that the last two parts of a URL name.

    A name alone is one of the caller's queues. Raises errors.QueueDoesNotExist.
    """
    return queue_at(url, identity.account, identity.region)


def queue_at(url: str, own_account: str, region: str) -> QueueName:
    """Return the queue that a URL names, as queue_name does."""
    if len(url) > _LONGEST_URL:
        raise errors.QueueDoesNotExist
    if names.is_valid(url):
        return QueueName(own_account, region, url)
    named = names.in_url(url)
    if named is None:
        raise errors.QueueDoesNotExist
    return existing_queue_name(named.account or own_account, named.name, region)


def existing_queue_name(account: str, name: str, region: str) -> QueueName:
    """Return a queue's name if it is valid; raise errors.QueueDoesNotExist otherwise."""
    if not limits.ACCOUNT.fullmatch(account) or not names.is_valid(name):
        raise errors.QueueDoesNotExist
    return QueueName(account, region, name)


def new_queue_name(name: str, *, fifo: bool) -> None:
    """Check the name of a new queue."""
    if fifo and not (name.endswith(names.FIFO) and names.is_valid(name)):
        raise errors.InvalidParameterValueException(
            "The name of a FIFO queue can only include alphanumeric characters, hyphens, or"
            " underscores, must end with .fifo suffix and be 1 to 80 in length."
        )
    if not fifo and (name.endswith(names.FIFO) or not names.is_valid(name)):
        raise errors.InvalidParameterValueException(
            "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
        )


def between(
    value: int | None, minimum: int, maximum: int, parameter: str, reason: str = ""
) -> None:
    """Check an optional number."""
    if value is not None and not minimum <= value <= maximum:
        reason = reason or f"Must be between {minimum} and {maximum}."
        raise errors.invalid(value, parameter, reason)


def results(value: int | None, default: int, largest: int) -> int:
    """Check MaxResults of a list, and return it, or its default."""
    between(value, 1, largest, "MaxResults")
    return default if value is None else value


def one_of(value: str | None, allowed: Sequence[str], parameter: str, condition: str = "") -> None:
    """Check an optional word; `condition` ends the reason."""
    if value is not None and value not in allowed:
        raise errors.invalid(value, parameter, f"Must be one of {', '.join(allowed)}{condition}.")


def page(parameters: Paged, largest: int) -> tuple[str, int, int]:
    """Check Search, Offset and MaxResults of a paged list, and return them."""
    search, offset = parameters.Search or "", parameters.Offset or 0
    between(offset, 0, _MAXIMUM_OFFSET, "Offset")
    limit = results(parameters.MaxResults or None, _PAGE, largest)
    if "\0" in search:
        raise errors.InvalidParameterValueException("A text cannot contain NUL.")
    return search, offset, limit


def receive_limit(value: int | None) -> None:
    """Check MaxNumberOfMessages."""
    limit = limits.RECEIVE_MESSAGES
    between(value, 1, limit, "MaxNumberOfMessages", f"Must be between 1 and {limit}, if provided.")


def wait_time(value: int | None) -> None:
    """Check WaitTimeSeconds."""
    limit = limits.WAIT_SECONDS
    between(value, 0, limit, "WaitTimeSeconds", f"Must be >= 0 and <= {limit}, if provided.")


def visibility_timeout(value: int | None) -> None:
    """Check a message's VisibilityTimeout."""
    limit = limits.VISIBILITY_TIMEOUT
    between(value, 0, limit, "VisibilityTimeout", f"VisibilityTimeout must be >= 0 and <= {limit}.")


def delay(value: int, limit: int) -> None:
    """Check a message's DelaySeconds against its queue's maximum."""
    between(value, 0, limit, "DelaySeconds", f"DelaySeconds must be >= 0 and <= {limit}.")


def identifier(value: str | None, parameter: str) -> None:
    """Check a MessageGroupId, MessageDeduplicationId or ReceiveRequestAttemptId."""
    if value is not None and not IDENTIFIER.fullmatch(value):
        raise errors.invalid(
            value,
            parameter,
            f"{parameter} can only include alphanumeric and punctuation characters."
            f" 1 to {limits.IDENTIFIER_LENGTH} in length.",
        )


def fifo_only(value: object, parameter: str) -> None:
    """Refuse a parameter that only FIFO queues support."""
    if value is not None:
        reason = "The request include parameter that is not valid for this queue type."
        raise errors.invalid(value, parameter, reason)


def characters(text: str) -> None:
    """Check that a text has no characters that XML 1.0 excludes."""
    if message.forbidden_character(text) is not None:
        raise forbidden_character(errors.InvalidParameterValueException)


def forbidden_character(error: type[errors.SqsError]) -> errors.SqsError:
    """Return the error, of this type, for a text with characters that XML 1.0 excludes."""
    return error(
        "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD |"
        " #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF"
    )


def batch(entries: Sequence[Entry], entry: str) -> None:
    """Check the number and the ids of a batch's entries, for which SQS refuses the whole batch."""
    if not entries:
        raise errors.EmptyBatchRequest(f"There should be at least one {entry} in the request.")
    if len(entries) > limits.BATCH_ENTRIES:
        raise errors.TooManyEntriesInBatchRequest(
            f"Maximum number of entries per request are {limits.BATCH_ENTRIES}."
            f" You have sent {len(entries)}."
        )
    ids = [each.Id for each in entries]
    # Of most batches all ids are valid, and none is there twice.
    if len({*ids}) == len(ids) and all(map(_ENTRY_ID.fullmatch, ids)):
        return
    seen: set[str] = set()
    for id_ in ids:
        if not _ENTRY_ID.fullmatch(id_):
            raise errors.InvalidBatchEntryId
        if id_ in seen:
            raise errors.BatchEntryIdsNotDistinct(f"Id {id_} repeated.")
        seen.add(id_)


def batch_values(entries: Sequence[requests.SendMessageBatchRequestEntry]) -> None:
    """Refuse the whole batch of sends if an attribute's value is a list."""
    for each in entries:
        if each.MessageAttributes:
            _list_values(each.MessageAttributes, "SendMessageBatch")
        if each.MessageSystemAttributes:
            _list_values(each.MessageSystemAttributes, "SendMessageBatch")


def _list_values(attributes: Mapping[str, AttributeValue], action: str = "SendMessage") -> None:
    """Refuse list values, which SQS reserves for the future, even if empty."""
    if any(
        value.StringListValues is not None or value.BinaryListValues is not None
        for value in attributes.values()
    ):
        raise errors.UnsupportedOperation(
            f"Message attribute list values in {action} operation are not supported."
        )


def message_attributes(attributes: Mapping[str, AttributeValue]) -> None:
    """Check the attributes of a message to send."""
    _list_values(attributes)
    if len(attributes) > limits.MESSAGE_ATTRIBUTES:
        raise errors.InvalidParameterValueException(
            f"Number of message attributes [{len(attributes)}] exceeds the allowed maximum"
            f" [{limits.MESSAGE_ATTRIBUTES}]."
        )
    for name, value in attributes.items():
        _attribute_name(name)
        _attribute_value(name, value)


def priority(attributes: Mapping[str, AttributeValue]) -> None:
    """Check the priority among the attributes of a message to send."""
    value = attributes.get(limits.PRIORITY)
    if value is not None and value.StringValue not in limits.PRIORITIES:
        raise errors.InvalidParameterValueException(
            f"The message attribute '{limits.PRIORITY}' with value"
            f" '{errors.shown(value.StringValue or '')}' is invalid. A priority is a Number from 0"
            " to 9."
        )


def _attribute_name(name: str) -> None:
    if (
        not _ATTRIBUTE_NAME.fullmatch(_latin(name))
        or len(name) > limits.ATTRIBUTE_NAME_LENGTH
        or name.lower().startswith(_RESERVED)
    ):
        raise errors.InvalidParameterValueException(
            f"The message attribute name '{errors.shown(name)}' is invalid. Attribute name can"
            " contain A-Z, a-z, 0-9, underscore (_), hyphen (-), and period (.) characters."
        )


def _latin(name: str) -> str:
    """Return a name with all non-ASCII letters and digits replaced by an ASCII letter."""
    if name.isascii():
        return name
    return "".join("a" if each.isalpha() or each.isdecimal() else each for each in name)


def _attribute_value(name: str, value: AttributeValue) -> None:
    data_type, shown = value.DataType, errors.shown(name)
    kind = data_type.split(".", 1)[0]
    if not data_type:
        raise errors.InvalidParameterValueException(
            f"The message attribute '{shown}' must contain a non-empty message attribute type."
        )
    if kind not in _KINDS:
        raise errors.InvalidParameterValueException(
            f"The message attribute '{shown}' has an invalid message attribute type, the set of"
            " supported type prefixes is Binary, Number, and String."
        )
    if len(data_type) > limits.ATTRIBUTE_TYPE_LENGTH:
        raise errors.InvalidParameterValueException(
            f"The type of message (user) attribute '{shown}' can be at most"
            f" {limits.ATTRIBUTE_TYPE_LENGTH} characters long."
        )
    characters(data_type)
    text, binary = value.StringValue, value.BinaryValue
    if not (binary if kind == "Binary" else text) or (text is not None and binary is not None):
        raise errors.InvalidParameterValueException(
            f"Message (user) attribute '{shown}' must contain a non-empty value of type '{kind}'."
        )
    if text is not None:
        characters(text)
    if kind == "Number" and not is_number(text or ""):
        raise errors.InvalidParameterValueException(
            f"Can't cast the value of message (user) attribute '{shown}' to a number."
        )


def is_number(text: str) -> bool:
    """Return whether a text is a number of at most 38 digits between 10^-128 and 10^126."""
    if len(text) > limits.NUMBER_LENGTH or not _NUMBER.fullmatch(text):
        return False
    try:
        value = Decimal(text)
    except InvalidOperation:  # The exponent exceeds Decimal's.
        return False
    digits = len("".join(map(str, value.as_tuple().digits)).strip("0"))
    low, high = limits.NUMBER_EXPONENTS
    return digits <= limits.NUMBER_DIGITS and (value.is_zero() or low <= value.adjusted() <= high)


def policy_size(length: int, statements: Sequence[Mapping[str, Any]]) -> None:
    """Check the length of a policy in bytes and the numbers of its statements and actions."""
    if length > limits.POLICY_BYTES:
        raise errors.OverLimit("Submitted policy is over max allowed size.")
    if len(statements) > limits.POLICY_STATEMENTS:
        raise errors.OverLimit(f"A policy can have at most {limits.POLICY_STATEMENTS} statements.")
    for statement in statements:
        actions, limit = statement.get("Action", []), limits.PERMISSION_ACTIONS
        if isinstance(actions, list) and len(actions) > limit:
            raise errors.OverLimit(
                f"{len(actions)} actions were found in a statement from the submitted policy,"
                f" max allowed is {limit}"
            )


def trace_header(attributes: Mapping[str, AttributeValue]) -> str | None:
    """Return the trace header, the only system attribute that a send may have."""
    _list_values(attributes)
    for name, value in attributes.items():
        if name != "AWSTraceHeader":
            raise errors.InvalidParameterValueException(
                f"Message system attribute name '{errors.shown(name)}' is invalid."
            )
        if value.DataType != "String" or not value.StringValue:
            raise errors.InvalidParameterValueException(
                f"Message (system) attribute '{name}' must contain a non-empty value of type"
                " 'String'."
            )
        if len(value.StringValue) > limits.TRACE_HEADER_LENGTH:
            raise errors.InvalidParameterValueException(
                f"Message (system) attribute '{name}' can be at most {limits.TRACE_HEADER_LENGTH}"
                " characters long."
            )
        characters(value.StringValue)
    return attributes["AWSTraceHeader"].StringValue


def moves_per_second(rate: int | None) -> None:
    """Check the optional rate of a task that moves messages."""
    limit, parameter = limits.MOVES_PER_SECOND, "MaxNumberOfMessagesPerSecond"
    between(rate, 1, limit, parameter, f"Must be between 1 and {limit}, if provided.")


def tasks_listed(number: int | None) -> None:
    """Check MaxResults of a list of tasks."""
    limit = limits.MOVE_TASKS_LISTED
    between(number, 1, limit, "MaxResults", f"Must be between 1 and {limit}, if provided.")
