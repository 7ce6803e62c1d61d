"""Create, find, list, purge and delete queues."""

from skipmq.actions import access, checks, paging, regions
from skipmq.actions.sqs import attributes, tags
from skipmq.broker import queues
from skipmq.broker.node import Node
from skipmq.broker.queues import Queue
from skipmq.protocol import answers, requests
from skipmq.protocol.call import Call
from skipmq.protocol.identity import QueueName


async def create_queue(node: Node, call: Call[requests.CreateQueue]) -> answers.CreateQueueResult:
    """Create a queue, unless one of that name with the same attributes exists; return its URL."""
    name = call.parameters.QueueName
    given_attributes = call.parameters.Attributes or {}
    fifo = attributes.is_fifo(given_attributes)
    checks.new_queue_name(name, fifo=fifo)
    given_tags = call.parameters.tags or {}
    tags.check(given_tags, name)
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
