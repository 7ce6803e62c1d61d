"""Policies in tests: statements, documents, and what they allow."""

import json
from typing import Any

from skipmq.auth.policy import Access, is_allowed, parse

OWNER, OTHER = "111122223333", "444455556666"
ORDERS = f"arn:aws:sqs:us-east-1:{OWNER}:orders"
ALICE = f"arn:aws:iam::{OWNER}:user/alice"
CAROL = f"arn:aws:iam::{OTHER}:user/carol"


def statement(effect: str = "Allow", **members: Any) -> dict[str, Any]:
    found = {"Effect": effect, "Action": "sqs:SendMessage", "Resource": "*"} | members
    return {name: value for name, value in found.items() if value is not None}


def document(*statements: dict[str, Any], version: str = "2012-10-17") -> str:
    return json.dumps({"Version": version, "Statement": list(statements)})


def shared(effect: str = "Allow", **members: Any) -> dict[str, Any]:
    """Return a statement of a queue's policy, about everybody unless it says otherwise."""
    principal = {} if "NotPrincipal" in members else {"Principal": "*"}
    return statement(effect, **principal | members)


def allowed(
    own: str = document(),
    queue: str | None = None,
    *,
    action: str = "sqs:SendMessage",
    resource: str = ORDERS,
    user: str = ALICE,
    **context: str,
) -> bool:
    given = {name.replace("_", ":"): value for name, value in context.items()}
    access = Access(action, resource, user.split(":")[4], user, given)
    theirs = parse(queue, of_queue=True) if queue is not None else None
    return is_allowed(access, OWNER, parse(own, of_queue=False), theirs)


NOTHING, OWN = document(), document(statement())
DENIED, OWN_DENIED = document(shared("Deny")), document(statement("Deny"))
