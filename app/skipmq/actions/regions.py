"""Queues of other regions than the client's, for requests whose signatures are not checked.

A queue URL names no region. A queue that does not exist in the client's region is looked up in
the others: first in the node's own, then in the order of their names.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import TypeVar

import msgspec

from skipmq.broker.node import Node
from skipmq.broker.queues import Queue
from skipmq.protocol import errors
from skipmq.protocol.call import Call
from skipmq.protocol.identity import QueueName

# Of a parameter that may be left out.
Arn = TypeVar("Arn", str, str | None)
# Where a policy names queues.
_ARNS = {"RedrivePolicy": "deadLetterTargetArn", "RedriveAllowPolicy": "sourceQueueArns"}
_ARN_PARTS = 6


async def find(node: Node, call: Call, name: QueueName) -> Queue:
    """Return a queue that a URL names; raise errors.QueueDoesNotExist."""
    if not call.identity.is_of_any_region:
        return await node.queues.find(name, call.deadline)
    return await node.queues.find_anywhere(name, node.settings.region, call.deadline)


async def declared(node: Node, call: Call, name: QueueName) -> Queue:
    """Return a queue that a client asks for by name; raise errors.QueueDoesNotExist.

    One that the node's settings declare has its name in all regions.
    """
    try:
        return await node.queues.find(name, call.deadline)
    except errors.QueueDoesNotExist:
        names = {each.name for each in node.settings.queues}
        if not call.identity.is_of_any_region or name.name not in names:
            raise
        return await find(node, call, name)


async def own_arn(node: Node, call: Call, arn: Arn) -> Arn:
    """Return the ARN of the queue that an ARN of the client's region names, or else the ARN.

    None stays None.
    """
    name = named(arn)
    identity = call.identity
    if name is not None and identity.is_of_any_region and name.region == identity.region:
        with suppress(errors.QueueDoesNotExist):
            return (await find(node, call, name)).name.arn
    return arn


async def with_own_arns(node: Node, call: Call, attributes: Mapping[str, str]) -> Mapping[str, str]:
    """Return stored attributes in which `own_arn` has replaced the ARNs that policies name."""
    changed = dict(attributes)
    for attribute, member in _ARNS.items():
        policy = msgspec.json.decode(attributes.get(attribute) or "{}")
        if (given := policy.get(member)) is None:
            continue
        arns = [
            await own_arn(node, call, each)
            for each in ([given] if isinstance(given, str) else given)
        ]
        policy[member] = arns if isinstance(given, list) else arns[0]
        changed[attribute] = msgspec.json.encode(policy).decode()
    return changed


def named(arn: str | None) -> QueueName | None:
    """Return the queue of an ARN in the form in which the database compares it."""
    parts = (arn or "").split(":")
    name = QueueName(parts[4], parts[3], parts[5]) if len(parts) == _ARN_PARTS else None
    return name if name is not None and name.arn == arn else None
