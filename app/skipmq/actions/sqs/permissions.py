"""AddPermission and RemovePermission: labelled statements of the queue's policy.

Source: SQS API Reference; the error texts are those of SQS.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from skipmq.actions import access, checks
from skipmq.broker.node import Node
from skipmq.broker.queues import Queue
from skipmq.protocol import errors, limits, requests
from skipmq.protocol.call import Call
from skipmq.protocol.identity import QueueName

_LABEL = re.compile(r"[A-Za-z0-9_-]{1,80}")
_GRANTABLE = access.SHARED | {"*"}
# A try fails only if another request has changed the policy.
_TRIES = 50

Statements: TypeAlias = list[Any]


async def add_permission(node: Node, call: Call[requests.AddPermission], queue: Queue) -> None:
    """Add a statement that allows accounts to use a queue."""
    parameters = call.parameters
    label, accounts, actions = parameters.Label, parameters.AWSAccountIds, parameters.Actions
    _check_label(label)
    _check_actions(actions)
    _check_accounts(accounts)
    statement = allowing(label, accounts, [f"SQS:{each}" for each in actions], queue.name.arn)

    def add(statements: Statements) -> Statements:
        if any(_is_labelled(each, label) for each in statements):
            raise errors.invalid(label, "Label", "Already exists.")
        return [*statements, statement]

    await _change(node, queue, call.deadline, add)


async def remove_permission(
    node: Node, call: Call[requests.RemovePermission], queue: Queue
) -> None:
    """Remove the statement with a label from a queue's policy."""
    label = call.parameters.Label

    def remove(statements: Statements) -> Statements:
        kept = [each for each in statements if not _is_labelled(each, label)]
        if len(kept) == len(statements):
            raise errors.invalid(label, "Label", "can't find label.")
        return kept

    await _change(node, queue, call.deadline, remove)


async def _change(
    node: Node, queue: Queue, deadline: float, change: Callable[[Statements], Statements]
) -> None:
    """Change the statements of a queue's policy; retry if it was changed meanwhile."""
    name = queue.name
    for _ in range(_TRIES):
        old = queue.attributes.policy
        new = _changed(name, old, change)
        replaced = await node.queues.replace_policy(queue, old=old, new=new, deadline=deadline)
        if replaced:
            return
        queue = await node.queues.find(name, deadline)
    raise errors.RequestThrottled("Too many changes of the queue's policy at once; try again.")


def _changed(name: QueueName, policy: str, change: Callable[[Statements], Statements]) -> str:
    document = _document(policy)
    present = document.get("Statement", [])
    # The policy language allows a single statement without a list.
    statements = change(present if isinstance(present, list) else [present])
    if not statements:
        return ""
    head = {"Version": "2008-10-17", "Id": f"{name.arn}/SQSDefaultPolicy"}
    text = msgspec.json.encode(head | document | {"Statement": statements})
    checks.policy_size(len(text), statements)
    return text.decode()


def _document(policy: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(policy, type=dict[str, Any]) if policy else {}
    except (msgspec.DecodeError, RecursionError) as error:
        # Written by SQL without these checks.
        raise errors.InvalidAttributeValue("Invalid value for the parameter Policy.") from error


def allowing(
    label: str, accounts: Sequence[str], actions: list[str], resource: str
) -> dict[str, Any]:
    """Return the statement of a policy that allows accounts actions on a queue or topic."""
    users = [f"arn:aws:iam::{account}:root" for account in accounts]
    return {
        "Sid": label,
        "Effect": "Allow",
        "Principal": {"AWS": _one_or_all(users)},
        "Action": _one_or_all(actions),
        "Resource": resource,
    }


def _is_labelled(statement: Any, label: str) -> bool:
    return isinstance(statement, dict) and statement.get("Sid") == label


def _one_or_all(values: list[str]) -> str | list[str]:
    return values[0] if len(values) == 1 else values


def _check_label(label: str) -> None:
    if not _LABEL.fullmatch(label):
        raise errors.invalid(
            label,
            "Label",
            "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length.",
        )


def _check_actions(actions: Sequence[str]) -> None:
    if not actions:
        raise errors.missing("Actions")
    limit = limits.PERMISSION_ACTIONS
    if len(actions) > limit:
        raise errors.OverLimit(f"{len(actions)} Actions were found, maximum allowed is {limit}.")
    for action in actions:
        if action not in _GRANTABLE:
            reason = "Only the queue owner is allowed to invoke this action."
            raise errors.invalid(f"SQS:{action}", "ActionName", reason)


def _check_accounts(accounts: Sequence[str]) -> None:
    unknown = [account for account in accounts if not limits.ACCOUNT.fullmatch(account)]
    if unknown or not accounts:
        raise errors.invalid(f"[{', '.join(unknown)}]", "PrincipalId", "Unable to verify.")
