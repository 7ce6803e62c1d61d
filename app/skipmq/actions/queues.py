"""Create, find, list, purge and delete queues."""

from typing import Any

from skipmq.actions import attributes, checks, paging, tags
from skipmq.model import Queue, QueueName
from skipmq.node import Node
from skipmq.protocol import Call


def create_queue(node: Node, call: Call) -> dict[str, Any]:
    """Create a queue, or find the one of that name and attributes."""
    name = call.parameters["QueueName"]
    wanted = call.parameters.get("Attributes", {})
    fifo = attributes.is_fifo(wanted)
    checks.new_queue_name(name, fifo=fifo)
    given = call.parameters.get("tags", {})
    tags.check(given)
    queue = QueueName(call.identity.account, call.identity.region, name)
    stored = attributes.stored(wanted, fifo=fifo)
    attributes.check_replication(node, stored)
    node.queues.create(
        queue,
        attributes=stored,
        tags=given,
        history_mode=node.settings.history,
        cooldown=node.settings.name_cooldown,
    )
    node.changed(queue)
    return {"QueueUrl": paging.queue_url(node, call, queue)}


def get_queue_url(node: Node, call: Call) -> dict[str, Any]:
    """Return the URL of a queue."""
    account = call.parameters.get("QueueOwnerAWSAccountId") or call.identity.account
    queue = checks.existing_queue_name(account, call.parameters["QueueName"], call.identity)
    node.queue(queue)
    return {"QueueUrl": paging.queue_url(node, call, queue)}


def list_queues(node: Node, call: Call) -> dict[str, Any]:
    """List queue URLs, in pages when MaxResults is given."""
    account, region = call.identity.account, call.identity.region
    prefix = call.parameters.get("QueueNamePrefix", "")
    page = paging.of(call)
    names = node.queues.names(account, region, prefix, page.after, page.limit + 1)
    urls, token = page.cut(node, call, account, names)
    return {"QueueUrls": urls, **token} if urls else {}


def delete_queue(node: Node, call: Call) -> None:
    """Delete a queue and all its messages."""
    name = checks.queue_name(call.parameters["QueueUrl"], call.identity)

    def delete(queue: Queue) -> None:
        node.queues.delete(queue.id)

    node.on_queue(name, delete)
    node.changed(name)


def purge_queue(node: Node, call: Call) -> None:
    """Delete all messages of a queue, those in flight included."""
    name = checks.queue_name(call.parameters["QueueUrl"], call.identity)

    def purge(queue: Queue) -> None:
        node.queues.purge(queue.id, node.settings.purge_cooldown)

    node.on_queue(name, purge)
    node.changed(name)
