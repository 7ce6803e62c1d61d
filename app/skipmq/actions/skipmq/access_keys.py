"""Beyond SQS: the access keys of an account, and what one of them may do."""

from typing import Any

import msgspec
from msgspec import structs

from skipmq.actions import access, checks
from skipmq.broker import access_keys, statistics
from skipmq.broker.access_keys import StoredKey
from skipmq.broker.key_store import KeyStore
from skipmq.broker.node import Node
from skipmq.protocol import errors, extensions
from skipmq.protocol.call import Call
from skipmq.protocol.identity import QueueName

_MAXIMUM_QUEUES = 100
# The permissions that are listed of a queue, and of a whole account.
PERMISSIONS = (
    "SendMessage",
    "ReceiveMessage",
    "DeleteMessage",
    "PeekMessages",
    "ReleaseMessages",
    "GetQueueAttributes",
    "SetQueueAttributes",
    "PauseQueue",
    "PauseMessageGroup",
    "PurgeQueue",
    "StartMessageMoveTask",
    "DeleteQueue",
)
ACCOUNT_PERMISSIONS = (
    "CreateQueue",
    "ListQueues",
    "ListMessageMoveTasks",
    "ListAuditRecords",
    "DescribeDatabase",
    "EndSession",
    "ListAccessKeys",
)


async def list_access_keys(node: Node, call: Call[extensions.ListAccessKeys]) -> dict[str, Any]:
    """List the access keys of the caller's account, without their secrets."""
    keys = _keys(node)
    found = [key for key in await keys.all() if key.account == call.identity.account]
    revoked = await access_keys.revoked(node.database, call.identity.account)
    return {
        "Keys": [_shown(key) for key in found],
        "RevokedKeys": [structs.replace(key, account=None) for key in revoked],
    }


async def get_access_key_rights(
    node: Node, call: Call[extensions.GetAccessKeyRights]
) -> dict[str, Any]:
    """Return what a key of the caller's account may do, on its account and on each queue."""
    keys, parameters, caller = _keys(node), call.parameters, call.identity
    search, offset, limit = checks.page(parameters, _MAXIMUM_QUEUES)
    found = [key for key in await keys.all() if key.id == parameters.AccessKeyId]
    if not found or found[0].account != caller.account:
        raise errors.ResourceNotFoundException("The access key does not exist.")
    (key,) = found
    identity = keys.identity(key.parent or key.id, caller.region)
    rows, others = await statistics.queues(
        node.database,
        limit,
        account=caller.account,
        region=caller.region,
        search=search,
        order="name",
        offset=offset,
        deadline=call.deadline,
    )
    asked = structs.replace(call, identity=identity) if identity is not None else None

    def granted(names: tuple[str, ...], queue: str, policy: str) -> list[str]:
        name = QueueName(caller.account, caller.region, queue)
        return [each for each in names if asked and access.allows(node, asked, each, name, policy)]

    return {
        "Key": _shown(key),
        "Account": granted(ACCOUNT_PERMISSIONS, "*", ""),
        "Queues": [
            {
                "QueueName": row.queue,
                "Permissions": granted(PERMISSIONS, row.queue, row.policy or ""),
            }
            for row in rows
            if row.queue is not None
        ],
        "Matches": len(rows) + others.queues,
    }


def _keys(node: Node) -> KeyStore:
    if node.keys is None:
        raise errors.UnsupportedOperation(
            "This node checks no signatures (SKIPMQ_AUTH=off): every caller may do everything."
        )
    return node.keys


def _shown(key: StoredKey) -> dict[str, Any]:
    rights = msgspec.json.decode(key.rights, type=dict[str, Any])
    shown: dict[str, Any] = {
        "AccessKeyId": key.id,
        "Name": key.name,
        "Enabled": key.usable,
        "CreatedTimestamp": round(key.created_at),
    }
    if "role" in rights:
        shown |= {"Role": rights["role"], "Queues": rights.get("queues") or ["*"]}
    else:
        shown["Policy"] = key.rights
    times = {"ExpiresTimestamp": key.expires_at, "LastUsedTimestamp": key.last_used_at}
    shown |= {name: round(at) for name, at in times.items() if at is not None}
    return shown if key.parent is None else shown | {"SessionOf": key.parent}
