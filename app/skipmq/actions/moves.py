"""Message move tasks: from a dead-letter queue back to the sources, or elsewhere.

Source: SQS API Reference, StartMessageMoveTask, ListMessageMoveTasks and CancelMessageMoveTask. A
handle is the base64 form of {"taskId": ..., "sourceArn": ...}.
"""

import re
from base64 import b64decode, b64encode
from typing import Any
from uuid import UUID

import msgspec

from skipmq import errors
from skipmq.actions import checks
from skipmq.model import MoveTask
from skipmq.node import Node
from skipmq.protocol import Call, requests

ABSENT_SOURCE = "The resource that you specified for the SourceArn parameter doesn't exist."
# The parts of an ARN: partition, service, region, account and resource.
_ARN = re.compile(r"arn:[^:\0]+:[^:\0]+:[^:\0]*:[^:\0]*:[^\0]+")

# Why a redrive without a destination fails whose messages came from no queue.
NO_SOURCE = "CouldNotDetermineMessageSource"


class _Handle(msgspec.Struct):
    """What the handle of a task is made of."""

    taskId: UUID  # noqa: N815 - the name in the handle.
    sourceArn: str  # noqa: N815


_read_handle = msgspec.json.Decoder(_Handle).decode


async def start_message_move_task(
    node: Node, call: Call[requests.StartMessageMoveTask]
) -> dict[str, Any]:
    """Begin to move the messages of a dead-letter queue."""
    wanted = call.parameters
    source, rate = wanted.SourceArn, wanted.MaxNumberOfMessagesPerSecond
    checks.moves_per_second(rate)
    _check_arn(source, "SourceArn")
    if wanted.DestinationArn is not None:
        _check_arn(wanted.DestinationArn, "DestinationArn")
    task = await node.moves.start(
        source, wanted.DestinationArn, rate, call.deadline, origins=call.origins
    )
    return {"TaskHandle": handle_of(task, source)}


async def list_message_move_tasks(
    node: Node, call: Call[requests.ListMessageMoveTasks]
) -> dict[str, Any]:
    """List the newest tasks of a dead-letter queue, one unless more are asked for."""
    source, most = call.parameters.SourceArn, call.parameters.MaxResults
    checks.tasks_listed(most)
    _check_arn(source, "SourceArn")
    tasks = await node.moves.list(source, most or 1, call.deadline)
    return {"Results": [shown_task(task, source) for task in tasks]}


async def cancel_message_move_task(
    node: Node, call: Call[requests.CancelMessageMoveTask]
) -> dict[str, Any]:
    """Stop a task; what it has moved stays moved."""
    handle = _decoded(call.parameters.TaskHandle)
    # The error for a source that does not exist comes before that for a task.
    await node.moves.list(handle.sourceArn, 1, call.deadline)
    moved = await node.moves.cancel(handle.taskId, handle.sourceArn, call.deadline)
    return {"ApproximateNumberOfMessagesMoved": moved}


def source_of(handle: str) -> str:
    """Return the ARN of the queue that a task's handle names as its source."""
    return _decoded(handle).sourceArn


def _decoded(handle: str) -> _Handle:
    try:
        return _read_handle(b64decode(handle.encode(), validate=True))
    except (ValueError, RecursionError) as error:
        raise errors.InvalidParameterValueException(
            "Value for parameter TaskHandle is invalid."
        ) from error


def handle_of(task: str, source: str) -> str:
    """Return the handle of a task of a source, both by what the database calls them."""
    return b64encode(msgspec.json.encode(_Handle(UUID(task), source))).decode()


def _check_arn(value: str, parameter: str) -> None:
    if not _ARN.fullmatch(value):
        raise checks.invalid(value, parameter, "Must be the ARN of a queue.")


def shown_task(task: MoveTask, source: str) -> dict[str, Any]:
    """Return a task as the actions give it."""
    shown = {
        "TaskHandle": handle_of(task.id, source) if task.status == "RUNNING" else None,
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
