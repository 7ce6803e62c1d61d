"""Redrives: policies, the sources of a dead-letter queue, and message move tasks.

Source: SQS API Reference, SetQueueAttributes (RedrivePolicy, RedriveAllowPolicy),
ListDeadLetterSourceQueues, StartMessageMoveTask, ListMessageMoveTasks and CancelMessageMoveTask.
The database checks that a policy's target allows it. A task moves messages from a dead-letter queue
to its sources or another queue; its handle is the base64 form of {"taskId": ..., "sourceArn": ...}.
"""

import re
from base64 import b64decode, b64encode
from typing import Any
from uuid import UUID

import msgspec

from skipmq.actions import access, checks, paging, regions
from skipmq.broker import moves, queues
from skipmq.broker.moves import MoveTask
from skipmq.broker.node import Node
from skipmq.broker.queues import Queue
from skipmq.protocol import answers, errors, limits, names, requests
from skipmq.protocol.call import Call
from skipmq.protocol.identity import Need

_PERMISSIONS = {"allowAll", "denyAll", "byQueue"}
# The parts of an ARN: partition, service, region, account and resource.
_ARN = re.compile(r"arn:[^:\0]+:[^:\0]+:[^:\0]*:[^:\0]*:[^\0]+")

# The failure of a redrive without destination for messages that came from no queue.
NO_SOURCE = "CouldNotDetermineMessageSource"


def policy(value: str) -> str:
    """Return a RedrivePolicy in the form in which it is stored; an empty one removes it."""
    if not value:
        return ""
    content = _object(value, "RedrivePolicy", "Redrive policy is not a valid JSON map.")
    for member in ("deadLetterTargetArn", "maxReceiveCount"):
        if member not in content:
            reason = f"Redrive policy does not contain mandatory attribute: {member}."
            raise errors.invalid(value, "RedrivePolicy", reason)
    if set(content) != {"deadLetterTargetArn", "maxReceiveCount"}:
        reason = "Only following attributes are supported: [deadLetterTargetArn, maxReceiveCount]."
        raise errors.invalid(value, "RedrivePolicy", reason)
    target, limit = content["deadLetterTargetArn"], content["maxReceiveCount"]
    if not _is_queue(target):
        raise errors.invalid(value, "RedrivePolicy", "Invalid value for deadLetterTargetArn.")
    count = int(limit) if re.fullmatch("[0-9]{1,4}", str(limit)) and limit is not True else 0
    if not 1 <= count <= limits.MAX_RECEIVE_COUNT:
        reason = (
            f"Invalid value for maxReceiveCount: {errors.shown(limit)}, valid values are from 1 to"
            f" {limits.MAX_RECEIVE_COUNT} both inclusive."
        )
        raise errors.invalid(value, "RedrivePolicy", reason)
    stored = {"deadLetterTargetArn": target, "maxReceiveCount": count}
    return msgspec.json.encode(stored).decode()


def allow_policy(value: str) -> str:
    """Return a RedriveAllowPolicy in the form in which it is stored; an empty one removes it."""
    if not value:
        return ""
    parameter = "RedriveAllowPolicy"
    content = _object(value, parameter, "Redrive allow policy is not a valid JSON map.")
    permission, sources = content.get("redrivePermission"), content.get("sourceQueueArns")
    unknown = set(content) - {"redrivePermission", "sourceQueueArns"}
    if not isinstance(permission, str) or permission not in _PERMISSIONS or unknown:
        raise errors.invalid(value, parameter, "Invalid value for redrivePermission.")
    if ("sourceQueueArns" in content) != (permission == "byQueue"):
        reason = "sourceQueueArns must be given with the redrivePermission byQueue, and only then."
        raise errors.invalid(value, parameter, reason)
    if permission == "byQueue" and not (
        isinstance(sources, list)
        and 1 <= len(sources) <= limits.REDRIVE_SOURCES
        and all(map(_is_queue, sources))
    ):
        reason = f"sourceQueueArns must be 1 to {limits.REDRIVE_SOURCES} ARNs of queues."
        raise errors.invalid(value, parameter, reason)
    return msgspec.json.encode(content).decode()


async def list_dead_letter_source_queues(
    node: Node, call: Call[requests.ListDeadLetterSourceQueues], queue: Queue
) -> answers.ListDeadLetterSourceQueuesResult:
    """List the URLs of the queues whose redrive policy names this queue."""
    name = queue.name
    page = paging.page(call)
    found = await queues.dead_letter_sources(
        node.database, name, page.after, page.limit + 1, call.deadline
    )
    urls, token = page.cut(node, call, name.account, found)
    return answers.ListDeadLetterSourceQueuesResult(queueUrls=urls, NextToken=token)


def _is_queue(arn: object) -> bool:
    named = names.in_arn(arn) if isinstance(arn, str) else None
    return named is not None and names.is_valid(named.name)


def _object(value: str, parameter: str, reason: str) -> dict[str, Any]:
    try:
        content = msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError) as error:
        raise errors.invalid(value, parameter, reason) from error
    if not isinstance(content, dict):
        raise errors.invalid(value, parameter, reason)
    return content


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
