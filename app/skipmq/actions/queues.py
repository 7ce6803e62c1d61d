"""Create, find, list, purge and delete queues."""

from base64 import b64decode, urlsafe_b64encode
from typing import Any

from skipmq import errors, limits
from skipmq.actions import attributes, checks
from skipmq.model import Queue, QueueName
from skipmq.node import Node
from skipmq.protocol import Call


def create_queue(node: Node, call: Call) -> dict[str, Any]:
    """Create a queue, or find the one of that name and attributes."""
    name = call.parameters["QueueName"]
    wanted = call.parameters.get("Attributes", {})
    if "FifoQueue" in wanted:
        attributes.check_fifo(wanted["FifoQueue"])
    checks.new_queue_name(name)
    queue = QueueName(call.identity.account, call.identity.region, name)
    node.queues.create(
        queue,
        attributes=attributes.stored(wanted),
        tags=call.parameters.get("tags", {}),
        history_mode=node.settings.history,
        cooldown=node.settings.name_cooldown,
    )
    node.forget(queue)
    return {"QueueUrl": _url(node, call, queue)}


def get_queue_url(node: Node, call: Call) -> dict[str, Any]:
    """Return the URL of a queue."""
    account = call.parameters.get("QueueOwnerAWSAccountId") or call.identity.account
    queue = checks.existing_queue_name(account, call.parameters["QueueName"], call.identity)
    node.queue(queue)
    return {"QueueUrl": _url(node, call, queue)}


def list_queues(node: Node, call: Call) -> dict[str, Any]:
    """List queue URLs, in pages when MaxResults is given."""
    identity, wanted = call.identity, call.parameters
    most = wanted.get("MaxResults")
    if most is not None and not 1 <= most <= limits.LIST_RESULTS:
        raise checks.invalid(
            most,
            "MaxResults",
            f"MaxResults must be an integer between 1 and {limits.LIST_RESULTS}.",
        )
    limit = most or limits.LIST_RESULTS
    after = _name_after(wanted["NextToken"]) if wanted.get("NextToken") else ""
    names = node.queues.list(
        identity.account, identity.region, wanted.get("QueueNamePrefix", ""), after, limit + 1
    )
    result: dict[str, Any] = {}
    if names:
        result["QueueUrls"] = [
            _url(node, call, QueueName(identity.account, identity.region, n)) for n in names[:limit]
        ]
    if most is not None and len(names) > limit:
        result["NextToken"] = urlsafe_b64encode(names[limit - 1].encode()).decode()
    return result


def delete_queue(node: Node, call: Call) -> None:
    """Delete a queue and all its messages."""
    name = checks.queue_name(call.parameters["QueueUrl"], call.identity)

    def delete(queue: Queue) -> None:
        node.queues.delete(queue.id)

    node.on_queue(name, delete)
    node.forget(name)


def purge_queue(node: Node, call: Call) -> None:
    """Delete all messages of a queue, those in flight included."""
    name = checks.queue_name(call.parameters["QueueUrl"], call.identity)

    def purge(queue: Queue) -> None:
        node.queues.purge(queue.id, node.settings.purge_cooldown)

    node.on_queue(name, purge)
    node.forget(name)


def _url(node: Node, call: Call, queue: QueueName) -> str:
    base = node.settings.public_url.rstrip("/") or call.request.base_url
    return f"{base}/{queue.account}/{queue.name}"


def _name_after(token: str) -> str:
    try:
        return b64decode(token.encode(), altchars=b"-_", validate=True).decode()
    except ValueError as error:
        raise errors.InvalidParameterValueException("Invalid or expired next token.") from error
