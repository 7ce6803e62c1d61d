"""Beyond SQS: who did what to the queues of an account, and who was refused."""

import re
from typing import Any

import msgspec

from skipmq import errors
from skipmq.actions import checks, paging
from skipmq.model import Identity, QueueName
from skipmq.node import Node
from skipmq.protocol import Call, extensions
from skipmq.store.audit_log import AuditRecord

_MOST, _PAGE = 100, 50
_ID = re.compile("[0-9]{1,18}")


async def list_audit_records(node: Node, call: Call[extensions.ListAuditRecords]) -> dict[str, Any]:
    """List records of the audit log, newest first, in pages.

    They are of what the caller's account did, of what others did to its queues, and of refusals of
    whoever is in no account that is known.
    """
    given = call.parameters
    limit = _PAGE if given.MaxResults is None else given.MaxResults
    checks.between(limit, 1, _MOST, "MaxResults", f"Must be between 1 and {_MOST}.")
    after = paging.after(call)
    if after and not _ID.fullmatch(after):
        raise errors.InvalidParameterValueException("Invalid or expired next token.")
    found = await node.audit.records(
        call.identity.account,
        limit + 1,
        before=int(after) if after else None,
        queue=arn(given.Queue, call.identity),
        access_key=given.AccessKeyId,
        action=given.Action,
        outcome=given.Outcome,
        deadline=call.deadline,
    )
    result: dict[str, Any] = {"Records": [_shown(record) for record in found[:limit]]}
    if len(found) > limit:
        result["NextToken"] = paging.token(str(found[limit - 1].id))
    return result


def arn(queue: str | None, identity: Identity) -> str | None:
    """Return the ARN of a queue that is given by its ARN, or by its name where it is one's own."""
    if queue is None or queue.startswith("arn:"):
        return queue
    return QueueName(identity.account, identity.region, queue).arn


def _shown(record: AuditRecord) -> dict[str, Any]:
    is_json = record.parameters is not None
    return {
        "Id": record.id,
        "RecordedTimestamp": round(record.recorded_at * 1000),
        "Account": record.account,
        "AccessKeyId": record.access_key,
        "Claimed": record.claimed,
        "User": record.user,
        "Action": record.action,
        "QueueArn": record.queue,
        "ClientAddress": record.client,
        "Door": record.door,
        "RequestId": record.request_id,
        "Outcome": record.outcome,
        "Parameters": msgspec.json.encode(record.parameters).decode() if is_json else None,
    }
