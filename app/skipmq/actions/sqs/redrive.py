"""Redrive policies, and the sources of a dead-letter queue.

Source: SQS API Reference, SetQueueAttributes (RedrivePolicy, RedriveAllowPolicy) and
ListDeadLetterSourceQueues. The database checks that a policy's target allows it.
"""

import re
from typing import Any

import msgspec

from skipmq.actions import paging
from skipmq.broker import queues
from skipmq.broker.node import Node
from skipmq.broker.queues import Queue
from skipmq.protocol import answers, errors, limits, names, requests
from skipmq.protocol.call import Call

_PERMISSIONS = {"allowAll", "denyAll", "byQueue"}


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
