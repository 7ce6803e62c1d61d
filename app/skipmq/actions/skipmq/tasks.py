"""Beyond SQS: search the messages of a queue, and tasks on those that match a filter.

Tasks move, copy or delete messages. They are stored and run like message move tasks:
CancelMessageMoveTask accepts their handles, and a queue has one task at a time.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from skipmq.actions import access, checks, paging, regions
from skipmq.actions.skipmq.inspection import page
from skipmq.actions.sqs.redrive import shown_task, task_handle
from skipmq.broker import audit_log, inspection, moves
from skipmq.broker.audit_log import AuditRecord
from skipmq.broker.inspection import MessageFilter
from skipmq.broker.moves import MoveTask
from skipmq.broker.node import Node
from skipmq.broker.queues import Queue
from skipmq.protocol import errors, extensions, limits
from skipmq.protocol.call import Call
from skipmq.protocol.identity import QueueName

KINDS = ("move", "copy", "delete")
# Tasks in an answer, and the records of starts that are searched for who started them.
_TASKS, _MAXIMUM_TASKS, _RECORDS, _START_MILLISECONDS = 50, 100, 100, 5_000
_STARTS = ("StartMessageMoveTask", "StartMessageTask")
# Characters of each text of a filter, and the shown messages of an answer.
_TEXT, _SHOWN = 256, 50
_LATEST = 253_402_300_799_000
# The further members of a filter, by their names in the database; and those that are times.
FURTHER = {
    "path": "BodyPath",
    "receives": "MinimumReceiveCount",
    "failure": "FailureKind",
    "sent_before": "SentBefore",
    "until": "VisibleBefore",
}
TIMES = {"sent_before", "until"}
# The place where a search continues: a time in microseconds, and a number.
_PLACE = re.compile("[0-9]{1,18}/[0-9]{1,18}")


async def start_message_task(node: Node, call: Call[extensions.StartMessageTask]) -> dict[str, Any]:
    """Start to move, copy or delete the messages of a queue that match a filter."""
    parameters, identity = call.parameters, call.identity
    kind, rate = parameters.Kind, parameters.MaxNumberOfMessagesPerSecond
    checks.one_of(kind, KINDS, "Kind")
    checks.moves_per_second(rate)
    matching = message_filter(parameters)
    source = checks.queue_name(parameters.QueueUrl, identity).arn
    source = await regions.own_arn(node, call, source)
    target = parameters.DestinationQueueUrl
    destination = None if target is None else checks.queue_name(target, identity).arn
    destination = await regions.own_arn(node, call, destination)
    task = await moves.start_matching(
        node.database,
        kind,
        source,
        destination,
        rate=rate,
        matching=matching,
        deadline=call.deadline,
    )
    return {"TaskHandle": task_handle(task, source)}


async def list_message_tasks(
    node: Node, call: Call[extensions.ListMessageTasks], queue: Queue
) -> dict[str, Any]:
    """List the newest tasks of a queue, redrives and those with a filter.

    Filters are omitted for a caller that may not peek at the queue's messages.
    """
    name = queue.name
    checks.tasks_listed(call.parameters.MaxResults)
    limit = call.parameters.MaxResults or limits.MOVE_TASKS_LISTED
    tasks = await moves.tasks(node.database, name.arn, limit, call.deadline, every=True)
    policy = queue.attributes.policy
    may_peek = access.allows(node, call, "PeekMessages", name, policy)
    return {"Tasks": [_shown(task, name.arn, may_peek=may_peek) for task in tasks]}


async def list_tasks(node: Node, call: Call[extensions.ListTasks]) -> dict[str, Any]:
    """List the tasks of all queues of the caller's account and region, those that run first.

    Filters are omitted; who started a task is known from the audit log, to callers that may read
    it.
    """
    identity, limit = call.identity, call.parameters.MaxResults or _TASKS
    checks.between(limit, 1, _MAXIMUM_TASKS, "MaxResults", f"Must be 1 to {_MAXIMUM_TASKS}.")
    tasks = await moves.account_tasks(
        node.database, identity.account, identity.region, limit, call.deadline
    )
    every = QueueName(identity.account, identity.region, "*")
    starts: list[AuditRecord] = []
    if tasks and access.allows(node, call, "ListAuditRecords", every, ""):
        for action in _STARTS:
            starts += await audit_log.records(
                node.database,
                identity.account,
                _RECORDS,
                action=action,
                outcome="done",
                deadline=call.deadline,
            )
    return {"Tasks": [_account_task(task, source, starts) for source, task in tasks]}


def _account_task(task: MoveTask, source: str, starts: Sequence[AuditRecord]) -> dict[str, Any]:
    shown = _shown(task, source, may_peek=False)
    for each in starts:
        # The record has the time of the request, which waits before the task exists.
        delay = task.started_at - each.recorded_at
        if each.queue == source and abs(delay) < _START_MILLISECONDS:
            user = (each.user or "").rpartition(":user/")[2]
            return shown | {"StartedBy": user or each.access_key or each.account}
    return shown


def _shown(task: MoveTask, source: str, *, may_peek: bool) -> dict[str, Any]:
    members: dict[str, Any] = msgspec.to_builtins(shown_task(task, source))
    shown = {"Kind": task.kind} | members
    if task.kind == "redrive":
        return shown
    shown["ApproximateNumberOfMessagesPassed"] = task.passed
    texts = (task.body_contains, task.attribute_name, task.attribute_value)
    names = ("BodyContains", "AttributeName", "AttributeValue")
    filters: dict[str, Any] = {
        name: text for name, text in zip(names, texts, strict=True) if text is not None
    }
    for name, value in (task.further or {}).items():
        is_time = name in TIMES
        filters[FURTHER[name]] = (
            int(datetime.fromisoformat(value).timestamp() * 1_000) if is_time else value
        )
    return shown | (filters if may_peek else {})


async def search_messages(
    node: Node, call: Call[extensions.SearchMessages], queue: Queue
) -> dict[str, Any]:
    """Return the first messages of a queue that match a filter, and how many were searched.

    A step reads 200,000 messages for a second at most; each NextToken continues.
    """
    limit = checks.results(call.parameters.MaxResults, _SHOWN, limits.PEEKED)
    token = paging.after(call, _PLACE.fullmatch)
    place = tuple(map(int, token.split("/"))) if token else (None, None)
    clock = await node.database.clock(call.deadline)
    matching = message_filter(call.parameters)
    step = await inspection.search(node.database, queue, matching, place, call.deadline)
    found = await inspection.picked(
        node.database, node.budget, queue, step.references[:limit], call.deadline
    )
    result: dict[str, Any] = {
        "Messages": page(node, found),
        "MessageReferences": [str(each) for each in step.references],
        "Found": step.found,
        "Searched": step.searched,
        "Clock": int(clock * 1_000),
    }
    if not step.finished:
        result["NextToken"] = paging.token(f"{step.at}/{step.number}")
    return result


def message_filter(parameters: extensions.FilterParameters) -> MessageFilter:
    """Check the members of a filter, and return it."""
    texts = (parameters.BodyContains, parameters.AttributeName, parameters.AttributeValue)
    for text in (*texts, parameters.BodyPath, parameters.FailureKind or None):
        if text is not None and (not text or "\0" in text or len(text) > _TEXT):
            raise errors.InvalidParameterValueException(
                f"A text of a filter must have 1 to {_TEXT} characters and no NUL."
            )
    if parameters.AttributeValue is not None and parameters.AttributeName is None:
        raise errors.InvalidParameterValueException(
            "A filter by attribute value requires an attribute name."
        )
    members = {name: getattr(parameters, member, None) for name, member in FURTHER.items()}
    given = {name: value for name, value in members.items() if value is not None}
    for name in TIMES & given.keys():
        if not 0 <= given[name] <= _LATEST:
            raise errors.InvalidParameterValueException("A time must be in milliseconds.")
        given[name] = datetime.fromtimestamp(given[name] / 1_000, UTC).isoformat()
    return MessageFilter(*texts, msgspec.json.encode(given).decode() if given else None)
