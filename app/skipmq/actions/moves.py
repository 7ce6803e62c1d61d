"""Message move tasks: from a dead-letter queue back to the sources, or elsewhere.

Source: SQS API Reference, StartMessageMoveTask, ListMessageMoveTasks and CancelMessageMoveTask. A
handle is the base64 form of {"taskId": ..., "sourceArn": ...}.
"""

from base64 import b64decode, b64encode
from typing import Any
from uuid import UUID

import msgspec

from skipmq import limits
from skipmq.actions import checks
from skipmq.model import MoveTask
from skipmq.node import Node
from skipmq.protocol import Call


async def start_message_move_task(node: Node, call: Call) -> dict[str, Any]:
    """Begin to move the messages of a dead-letter queue."""
    wanted = call.parameters
    source, rate = wanted.SourceArn, wanted.MaxNumberOfMessagesPerSecond
    fastest, parameter = limits.MOVES_PER_SECOND, "MaxNumberOfMessagesPerSecond"
    checks.between(rate, 1, fastest, parameter, f"Must be between 1 and {fastest}, if provided.")
    task = await node.moves.start(source, wanted.DestinationArn, rate, call.deadline)
    return {"TaskHandle": _handle(task, source)}


async def list_message_move_tasks(node: Node, call: Call) -> dict[str, Any]:
    """List the newest tasks of a dead-letter queue, one unless more are asked for."""
    source, most = call.parameters.SourceArn, call.parameters.MaxResults
    listed = limits.MOVE_TASKS_LISTED
    checks.between(most, 1, listed, "MaxResults", f"Must be between 1 and {listed}, if provided.")
    tasks = await node.moves.list(source, most or 1, call.deadline)
    return {"Results": [_shown(task, source) for task in tasks]}


async def cancel_message_move_task(node: Node, call: Call) -> dict[str, Any]:
    """Stop a task; what it has moved stays moved."""
    handle = call.parameters.TaskHandle
    try:
        content = msgspec.json.decode(b64decode(handle.encode(), validate=True))
        task = UUID(content["taskId"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise checks.invalid(handle, "TaskHandle", "The task handle is not valid.") from error
    return {"ApproximateNumberOfMessagesMoved": await node.moves.cancel(task, call.deadline)}


def _handle(task: str, source: str) -> str:
    return b64encode(msgspec.json.encode({"taskId": task, "sourceArn": source})).decode()


def _shown(task: MoveTask, source: str) -> dict[str, Any]:
    shown = {
        "TaskHandle": _handle(task.id, source) if task.status == "RUNNING" else None,
        "Status": task.status,
        "SourceArn": source,
        "DestinationArn": task.destination,
        "MaxNumberOfMessagesPerSecond": task.rate,
        "ApproximateNumberOfMessagesMoved": task.moved,
        "ApproximateNumberOfMessagesToMove": task.to_move,
        "FailureReason": task.failure,
        "StartedTimestamp": task.started_at,
    }
    return {key: value for key, value in shown.items() if value is not None}
