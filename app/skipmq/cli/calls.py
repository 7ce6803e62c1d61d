"""Actions that a command runs on a node in its process; what imports the dispatcher."""

from typing import Any
from uuid import uuid4

import msgspec

from skipmq import errors
from skipmq.model import Identity, QueueName
from skipmq.node import Node
from skipmq.protocol import REQUESTS, Call, Request
from skipmq.server import request_log
from skipmq.server.dispatch import EVERY, perform, queue_name


def prepared(
    node: Node, action: str, caller: Identity, address: str, given: dict[str, Any]
) -> Call:
    """Return the call of an action by a command at an address."""
    struct = msgspec.convert(given, REQUESTS[action])
    request = Request("POST", "/", {}, "", b"", "http://localhost", str(uuid4()), address)
    return Call(action, struct, request, caller, node.deadline())


async def run(node: Node, call: Call) -> dict[str, Any]:
    """Run an action and return its result, in which bytes are in base64."""
    result: dict[str, Any] = msgspec.to_builtins(await perform(node, call) or {})
    return result


async def record(node: Node, call: Call, error: errors.SqsError | None) -> None:
    """Record a change, or why there was none, in the audit log."""
    if EVERY[call.action].is_change:
        node.audit.note(request_log.command_record(call, error))
        await node.audit.flush()


def name_in(call: Call) -> QueueName | None:
    """Return the queue that a call names."""
    return queue_name(call)
