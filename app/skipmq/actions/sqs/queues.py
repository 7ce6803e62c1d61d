"""Create, find, list, purge, tag and delete queues.

Source: SQS Developer Guide, "Amazon SQS cost allocation tags"; the allowed characters are those of
the AWS Resource Groups Tagging API.
"""

import unicodedata
from collections.abc import Mapping

from skipmq.actions import access, checks, paging, regions
from skipmq.actions.sqs import attributes
from skipmq.broker import queues
from skipmq.broker.node import Node
from skipmq.broker.queues import Queue
from skipmq.protocol import answers, errors, limits, requests
from skipmq.protocol.call import Call
from skipmq.protocol.identity import QueueName

_RESERVED = "aws:"
_SIGNS = frozenset("_.:/=+-@")
_LETTER_NUMBER_OR_SPACE = frozenset("LNZ")


async def create_queue(node: Node, call: Call[requests.CreateQueue]) -> answers.CreateQueueResult:
    """Create a queue, unless one of that name with the same attributes exists; return its URL."""
    name = call.parameters.QueueName
    given_attributes = call.parameters.Attributes or {}
    fifo = attributes.is_fifo(given_attributes)
    checks.new_queue_name(name, fifo=fifo)
    given_tags = call.parameters.tags or {}
    _check_tags(given_tags, name)
    queue = QueueName(call.identity.account, call.identity.region, name)
    stored = attributes.stored(given_attributes, fifo=fifo)
    await attributes.check_replication(node, stored, call.deadline)
    await node.queues.create(
        queue,
        attributes=stored,
        tags=given_tags,
        history_mode=node.settings.history,
        cooldown=node.settings.name_cooldown,
        deadline=call.deadline,
    )
    return answers.CreateQueueResult(QueueUrl=paging.queue_url(node, call, queue))


async def get_queue_url(node: Node, call: Call[requests.GetQueueUrl]) -> answers.GetQueueUrlResult:
    """Return the URL of a queue."""
    ((_, name),) = access.named_queue_needs(call)
    queue = await regions.declared(node, call, name)
    return answers.GetQueueUrlResult(QueueUrl=paging.queue_url(node, call, queue.name))


async def list_queues(node: Node, call: Call[requests.ListQueues]) -> answers.ListQueuesResult:
    """List queue URLs, in pages if MaxResults is given."""
    account, region = call.identity.account, call.identity.region
    prefix = call.parameters.QueueNamePrefix or ""
    page = paging.page(call)
    names = await queues.names(
        node.database, account, region, prefix, page.after, page.limit + 1, call.deadline
    )
    urls, token = page.cut(node, call, account, names)
    return answers.ListQueuesResult(QueueUrls=urls or None, NextToken=token)


async def delete_queue(
    node: Node, call: Call[requests.DeleteQueue], queue: Queue
) -> dict[str, int]:
    """Delete a queue and its messages; return their number, which is not in the answer of SQS."""
    return {"Removed": await node.queues.delete(queue, call.deadline)}


async def purge_queue(node: Node, call: Call[requests.PurgeQueue], queue: Queue) -> dict[str, int]:
    """Delete all messages of a queue, including those in flight, and return as delete_queue."""
    cooldown = node.settings.purge_cooldown
    return {"Removed": await node.queues.purge(queue, cooldown, call.deadline)}


async def tag_queue(node: Node, call: Call[requests.TagQueue], queue: Queue) -> None:
    """Add tags to a queue; replace those with the same key."""
    tags: Mapping[str, str] = call.parameters.Tags
    if not tags:
        raise errors.missing("Tags")
    _check_tags(tags, queue.name.name)
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


def _check_tags(tags: Mapping[str, str], queue: str) -> None:
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
