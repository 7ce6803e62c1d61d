"""What an access key may do: a ready-made role on some queues, or a policy of its own."""

from collections.abc import Sequence

import msgspec

from skipmq.auth.policy import Policy, parse

_LOOK = ("GetQueueAttributes", "GetQueueUrl")
_READ = (
    "ListDeadLetterSourceQueues",
    "ListMessageMoveTasks",
    "ListQueues",
    "ListQueueTags",
    "PeekMessages",
    *_LOOK,
)
ROLES: dict[str, tuple[str, ...]] = {
    "admin": ("*",),
    "producer": ("SendMessage", *_LOOK),
    "consumer": ("ChangeMessageVisibility", "DeleteMessage", "ReceiveMessage", *_LOOK),
    "reader": _READ,
    # Whoever is paged: sees the broker too, and brings dead letters back, for which messages are
    # received, sent and deleted.
    "operator": (
        "CancelMessageMoveTask",
        "DeleteMessage",
        "DescribeDatabase",
        "ListAuditRecords",
        "ReceiveMessage",
        "SendMessage",
        "StartMessageMoveTask",
        *_READ,
    ),
}


class Rights(msgspec.Struct):
    """A role, for the queues of the key's account that match a pattern, or for all."""

    role: str
    queues: tuple[str, ...] | None = None


def of_role(role: str, queues: Sequence[str] = ()) -> str:
    """Return rights as they are stored: a role for queues by name, where `*` and `?` match."""
    return msgspec.json.encode(Rights(role, tuple(queues) or None)).decode()


def policy_of(rights: str, account: str) -> Policy:
    """Return the policy of a key of an account; raise ValueError for rights that are unknown."""
    content = msgspec.json.decode(rights, type=dict[str, msgspec.Raw])
    if "role" in content:
        return parse(_document(msgspec.json.decode(rights, type=Rights), account), of_queue=False)
    return parse(rights, of_queue=False)


def _document(rights: Rights, account: str) -> str:
    actions = ROLES.get(rights.role)
    if actions is None:
        raise ValueError(f"there is no role {rights.role}")
    queues = rights.queues
    statement = {
        "Effect": "Allow",
        "Action": [f"sqs:{action}" for action in actions],
        "Resource": [f"arn:aws:sqs:*:{account}:{each}" for each in queues] if queues else "*",
    }
    return msgspec.json.encode({"Version": "2012-10-17", "Statement": [statement]}).decode()
