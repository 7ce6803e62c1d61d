"""Beyond SQS: the audit log of an account."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
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
# The last time that ids of records can have, in milliseconds since 1970.
_LAST = 2**42 - 1
# The most reads of the log for a page.
READS = 10


def moment(text: str) -> float:
    """Return an ISO time in seconds since 1970; it is in UTC unless it has an offset.

    Raises ValueError and OverflowError.
    """
    found = datetime.fromisoformat(text)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


async def list_audit_records(node: Node, call: Call[extensions.ListAuditRecords]) -> dict[str, Any]:
    """List records of the audit log, newest first, in pages.

    They are the requests of the caller's account, those of other accounts for its queues, and
    refused requests of unknown accounts.
    """
    parameters = call.parameters
    limit = checks.results(parameters.MaxResults, _PAGE, _MAXIMUM_RESULTS)
    after = paging.after(call)
    if after and (not _ID.fullmatch(after) or int(after) > _GREATEST):
        raise errors.InvalidParameterValueException("Invalid or expired next token.")
    since, until = parameters.SinceTimestamp, parameters.UntilTimestamp
    for name, given in (("SinceTimestamp", since), ("UntilTimestamp", until)):
        if given is not None:
            checks.between(given, 0, _LAST, name, "Must be in milliseconds since 1970.")
    before = int(after) if after else None
    records: list[AuditRecord] = []
    is_more = True
    # Equal refusals are one record, so that a client that retries does not hide the others.
    for _ in range(READS):
        found = await audit_log.records(
            node.database,
            call.identity.account,
            _MAXIMUM_RESULTS,
            before=before,
            queue=arn(parameters.Queue, call.identity),
            access_key=parameters.AccessKeyId,
            action=parameters.Action,
            outcome=parameters.Outcome,
            by=parameters.By,
            changes=bool(parameters.ChangesOnly),
            since=None if since is None else since * 1000,
            until=None if until is None else until * 1000,
            deadline=call.deadline,
        )
        taken = fold(records, found, limit)
        before = int(found[taken - 1].id) if taken else before
        is_more = taken < len(found) or len(found) == _MAXIMUM_RESULTS
        if taken < len(found) or not is_more:
            break
    for each in records:
        if each.parameters is not None:
            each.parameters = msgspec.json.format(each.parameters, indent=-1)
    result: dict[str, Any] = {"Records": records}
    if is_more:
        result["NextToken"] = paging.token(str(before))
    return result


def fold(records: list[AuditRecord], found: Sequence[AuditRecord], limit: int) -> int:
    """Add records to those of a page, up to `limit`; return how many were taken.

    A refusal is counted at the newest one that differs by its time and its request alone.
    """
    newest = {each.likeness: each for each in records if each.outcome != "done"}
    for taken, each in enumerate(found):
        known = newest.get(each.likeness)
        if known is not None:
            known.count += 1
            known.first_at = each.recorded_at
            continue
        if len(records) == limit:
            return taken
        records.append(each)
        if each.outcome != "done":
            newest[each.likeness] = each
    return len(found)


def arn(queue: str | None, identity: Identity) -> str | None:
    """Return the ARN of a queue, given as an ARN or as the name of one of the caller's queues."""
    if queue is None or queue.startswith("arn:"):
        return queue
    return QueueName(identity.account, identity.region, queue).arn
