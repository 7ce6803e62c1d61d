"""The tags of queues.

Source: SQS Developer Guide, "Amazon SQS cost allocation tags"; the allowed characters are those of
the AWS Resource Groups Tagging API.
"""

import unicodedata
from collections.abc import Mapping

from skipmq.broker.node import Node
from skipmq.broker.queues import Queue
from skipmq.protocol import answers, errors, limits, requests
from skipmq.protocol.call import Call

_RESERVED = "aws:"
_SIGNS = frozenset("_.:/=+-@")
_LETTER_NUMBER_OR_SPACE = frozenset("LNZ")


async def tag_queue(node: Node, call: Call[requests.TagQueue], queue: Queue) -> None:
    """Add tags to a queue; replace those with the same key."""
    tags: Mapping[str, str] = call.parameters.Tags
    if not tags:
        raise errors.missing("Tags")
    check(tags, queue.name.name)
    await node.queues.tag(queue, tags, call.deadline)


async def untag_queue(node: Node, call: Call[requests.UntagQueue], queue: Queue) -> None:
    """Remove tags from a queue by their keys; ignore keys that it does not have."""
    keys: list[str] = call.parameters.TagKeys
    if not keys:
        raise errors.missing("TagKeys")
    await node.queues.untag(queue, keys, call.deadline)


async def list_queue_tags(
    node: Node, call: Call[requests.ListQueueTags], queue: Queue
) -> answers.ListQueueTagsResult:
    """Return the tags of a queue."""
    del node, call
    return answers.ListQueueTagsResult(Tags=dict(sorted(queue.tags.items())) or None)


def check(tags: Mapping[str, str], queue: str) -> None:
    """Check tags for the queue of that name; the database checks the queue's total."""
    if len(tags) > limits.TAGS:
        raise errors.InvalidParameterValueException(f"Too many tags added for queue {queue}.")
    for key, value in tags.items():
        if not 1 <= len(key) <= limits.TAG_KEY_LENGTH:
            raise errors.InvalidParameterValueException(
                f"Tag keys must be between 1 and {limits.TAG_KEY_LENGTH} characters in length."
            )
        if key.lower().startswith(_RESERVED):
            raise errors.invalid(key, "TagKey", f"The prefix {_RESERVED} is reserved for AWS.")
        _check_characters(key, "TagKey")
        if len(value) > limits.TAG_VALUE_LENGTH:
            reason = f"A tag value must be at most {limits.TAG_VALUE_LENGTH} characters long."
            raise errors.invalid(value, "TagValue", reason)
        _check_characters(value, "TagValue")


def _check_characters(text: str, parameter: str) -> None:
    for character in text:
        kind = unicodedata.category(character)[0]
        if kind not in _LETTER_NUMBER_OR_SPACE and character not in _SIGNS:
            reason = "Can only include letters, digits, spaces and _ . : / = + - @"
            raise errors.invalid(text, parameter, reason)
