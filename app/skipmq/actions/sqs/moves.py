"""Message move tasks: from a dead-letter queue to its sources or another queue.

Source: SQS API Reference, StartMessageMoveTask, ListMessageMoveTasks and CancelMessageMoveTask. A
handle is the base64 form of {"taskId": ..., "sourceArn": ...}.
"""

import re
from base64 import b64decode, b64encode
from uuid import UUID

import msgspec

from skipmq.actions import access, checks, regions
from skipmq.broker import moves
from skipmq.broker.moves import MoveTask
from skipmq.broker.node import Node
from skipmq.protocol import answers, errors, requests
from skipmq.protocol.call import Call
from skipmq.protocol.identity import Need

# The parts of an ARN: partition, service, region, account and resource.
_ARN = re.compile(r"arn:[^:\0]+:[^:\0]+:[^:\0]*:[^:\0]*:[^\0]+")

# The failure of a redrive without destination for messages that came from no queue.
NO_SOURCE = "CouldNotDetermineMessageSource"


class _Handle(msgspec.Struct):
    taskId: UUID  # noqa: N815 - the name in the handle.
    sourceArn: str  # noqa: N815


_read_handle = msgspec.json.Decoder(_Handle).decode


async def start_message_move_task(
    node: Node, call: Call[requests.StartMessageMoveTask]
) -> answers.StartMessageMoveTaskResult:
    """Start to move the messages of a dead-letter queue."""
    parameters = call.parameters
    # Only here, where the caller is authorised: how long this takes depends on the messages.
    origins = await access.origins(node, call) if parameters.DestinationArn is None else None
    source, rate = parameters.SourceArn, parameters.MaxNumberOfMessagesPerSecond
    checks.moves_per_second(rate)
    _check_arn(source, "SourceArn")
    if parameters.DestinationArn is not None:
        _check_arn(parameters.DestinationArn, "DestinationArn")
    source = await regions.own_arn(node, call, source)
    destination = await regions.own_arn(node, call, parameters.DestinationArn)
    task = await moves.start(
        node.database, source, destination, rate, call.deadline, origins=origins
    )
    return answers.StartMessageMoveTaskResult(TaskHandle=task_handle(task, source))


async def list_message_move_tasks(
    node: Node, call: Call[requests.ListMessageMoveTasks]
) -> answers.ListMessageMoveTasksResult:
    """List the newest tasks of a dead-letter queue; MaxResults defaults to 1."""
    source, limit = call.parameters.SourceArn, call.parameters.MaxResults
    checks.tasks_listed(limit)
    _check_arn(source, "SourceArn")
    source = await regions.own_arn(node, call, source)
    tasks = await moves.tasks(node.database, source, limit or 1, call.deadline)
    return answers.ListMessageMoveTasksResult(Results=[shown_task(task, source) for task in tasks])


async def cancel_message_move_task(
    node: Node, call: Call[requests.CancelMessageMoveTask]
) -> answers.CancelMessageMoveTaskResult:
    """Cancel a task; messages that it has moved stay moved."""
    handle = _decode(call.parameters.TaskHandle)
    # Raises the error for an absent source, which precedes that for an absent task.
    await moves.tasks(node.database, handle.sourceArn, 1, call.deadline)
    moved = await moves.cancel(node.database, handle.taskId, handle.sourceArn, call.deadline)
    return answers.CancelMessageMoveTaskResult(ApproximateNumberOfMessagesMoved=moved)


def cancel_needs(call: Call) -> list[Need]:
    """Return the needs of CancelMessageMoveTask; raise errors.InvalidParameterValueException."""
    source = _decode(call.parameters.TaskHandle).sourceArn
    return access.arn_needs(source, "CancelMessageMoveTask")


def _decode(handle: str) -> _Handle:
    try:
        return _read_handle(b64decode(handle.encode(), validate=True))
    except (ValueError, RecursionError) as error:
        raise errors.InvalidParameterValueException(
            "Value for parameter TaskHandle is invalid."
        ) from error


def task_handle(task: str, source: str) -> str:
    """Return a task's handle from its id and its source's ARN."""
    return b64encode(msgspec.json.encode(_Handle(UUID(task), source))).decode()


def _check_arn(value: str, parameter: str) -> None:
    if not _ARN.fullmatch(value):
        raise errors.invalid(value, parameter, "Must be the ARN of a queue.")


def shown_task(task: MoveTask, source: str) -> answers.ListMessageMoveTasksResultEntry:
    """Return a task in the form of the actions' answers."""
    return answers.ListMessageMoveTasksResultEntry(
        TaskHandle=task_handle(task.id, source) if task.status == "RUNNING" else None,
        Status=task.status,
        SourceArn=source,
        DestinationArn=task.destination,
        MaxNumberOfMessagesPerSecond=task.rate,
        ApproximateNumberOfMessagesMoved=task.moved,
        ApproximateNumberOfMessagesToMove=task.to_move,
        FailureReason=task.failure,
        StartedTimestamp=task.started_at,
    )
