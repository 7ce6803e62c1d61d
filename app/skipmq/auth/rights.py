"""The rights of an access key: a predefined role on some queues, or a policy of its own."""

from collections.abc import Sequence

import msgspec

from skipmq.auth.policy import Policy, parse

_SERVICES = ("sqs", "sns")
_DESCRIBE_QUEUE = ("GetQueueAttributes", "GetQueueUrl")
_READ = (
    "ListDeadLetterSourceQueues",
    "ListMessageMoveTasks",
    "ListQueues",
    "ListQueueTags",
    "PeekMessages",
    "GetSubscriptionAttributes",
    "GetTopicAttributes",
    "ListSubscriptions",
    "ListSubscriptionsByTopic",
    "ListTagsForResource",
    "ListTopics",
    *_DESCRIBE_QUEUE,
)
ROLES: dict[str, tuple[str, ...]] = {
    "admin": ("*",),
    "producer": ("SendMessage", "Publish", *_DESCRIBE_QUEUE),
    "consumer": ("ChangeMessageVisibility", "DeleteMessage", "ReceiveMessage", *_DESCRIBE_QUEUE),
    "reader": _READ,
    # For the engineer on call. A redrive needs the rights to receive, send and delete.
    "operator": (
        "CancelMessageMoveTask",
        "CreateSchedule",
        "DeleteMessage",
        "DeleteSchedule",
        "DescribeDatabase",
        "ListAuditRecords",
        "PauseMessageGroup",
        "PauseQueue",
        "PauseSchedule",
        "ReceiveMessage",
        "ReleaseMessages",
        "RunSchedule",
        "SendMessage",
        "StartMessageMoveTask",
        *_READ,
    ),
}


class Rights(msgspec.Struct):
    """A role for queues and topics of the key's account; `queues` has patterns, None means all."""

    role: str
    queues: tuple[str, ...] | None = None


def rights_for(role: str, queues: Sequence[str] = ()) -> str:
    """Return the stored form of a role for queues; `*` and `?` in their names are wildcards."""
    return msgspec.json.encode(Rights(role, tuple(queues) or None)).decode()


def policy_of(rights: str, account: str) -> Policy:
    """Return the policy of an account's key from its stored rights; raise ValueError if invalid."""
    content = msgspec.json.decode(rights, type=dict[str, msgspec.Raw])
    if "role" in content:
        return parse(_document(msgspec.json.decode(rights, type=Rights), account), of_queue=False)
    return parse(rights, of_queue=False)


def _document(rights: Rights, account: str) -> str:
    actions = ROLES.get(rights.role)
    if actions is None:
        raise ValueError(f"unknown role {rights.role}")
    queues = rights.queues
    statement = {
        "Effect": "Allow",
        "Action": [f"{service}:{action}" for service in _SERVICES for action in actions],
        "Resource": [f"arn:aws:{s}:*:{account}:{each}" for s in _SERVICES for each in queues]
        if queues
        else "*",
    }
    return msgspec.json.encode({"Version": "2012-10-17", "Statement": [statement]}).decode()
