"""Beyond SQS: the audit log of an account."""

import re
from typing import Any

import msgspec

from skipmq.actions import checks, paging
from skipmq.broker import audit_log
from skipmq.broker.audit_log import AuditRecord
from skipmq.broker.node import Node
from skipmq.protocol import errors, extensions
from skipmq.protocol.call import Call
from skipmq.protocol.identity import Identity, QueueName

_MAXIMUM_RESULTS, _PAGE = 100, 50
_ID = re.compile("[0-9]{1,19}")
_GREATEST = 2**63 - 1


async def list_audit_records(node: Node, call: Call[extensions.ListAuditRecords]) -> dict[str, Any]:
    """List records of the audit log, newest first, in pages.

    They are the requests of the caller's account, those of other accounts for its queues, and
    refused requests of unknown accounts.
    """
    parameters = call.parameters
    limit = _PAGE if parameters.MaxResults is None else parameters.MaxResults
    checks.between(
        limit, 1, _MAXIMUM_RESULTS, "MaxResults", f"Must be between 1 and {_MAXIMUM_RESULTS}."
    )
    after = paging.after(call)
    if after and (not _ID.fullmatch(after) or int(after) > _GREATEST):
        raise errors.InvalidParameterValueException("Invalid or expired next token.")
    found = await audit_log.records(
        node.database,
        call.identity.account,
        limit + 1,
        before=int(after) if after else None,
        queue=arn(parameters.Queue, call.identity),
        access_key=parameters.AccessKeyId,
        action=parameters.Action,
        outcome=parameters.Outcome,
        deadline=call.deadline,
    )
    result: dict[str, Any] = {"Records": [_shown(record) for record in found[:limit]]}
    if len(found) > limit:
        result["NextToken"] = paging.token(str(found[limit - 1].id))
    return result


def arn(queue: str | None, identity: Identity) -> str | None:
    """Return the ARN of a queue, given as an ARN or as the name of one of the caller's queues."""
    if queue is None or queue.startswith("arn:"):
        return queue
    return QueueName(identity.account, identity.region, queue).arn


def _shown(record: AuditRecord) -> dict[str, Any]:
    is_json = record.parameters is not None
    return {
        "Id": str(record.id),
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
