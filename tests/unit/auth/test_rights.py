import json

import pytest

from skipmq.actions.dispatch import EVERY
from skipmq.auth.policy import ROLES, Access, is_allowed, parse, policy_of, rights_for

ACCOUNT = "111122223333"


def may(rights: str, action: str, queue: str = "orders", account: str = ACCOUNT) -> bool:
    user = f"arn:aws:iam::{ACCOUNT}:user/tests"
    resource = f"arn:aws:sqs:us-east-1:{account}:{queue}"
    access = Access(f"sqs:{action}", resource, ACCOUNT, user, {})
    everybody = {"Effect": "Allow", "Principal": "*", "Action": "*", "Resource": "*"}
    theirs = parse(json.dumps({"Statement": everybody}), of_queue=True)
    return is_allowed(
        access, account, policy_of(rights, ACCOUNT), theirs if account != ACCOUNT else None
    )


@pytest.mark.parametrize(
    ("role", "action", "expected"),
    [
        ("admin", "DeleteQueue", True),
        ("producer", "SendMessage", True),
        ("producer", "ReceiveMessage", False),
        ("consumer", "ReceiveMessage", True),
        ("consumer", "DeleteMessage", True),
        ("consumer", "SendMessage", False),
        ("consumer", "PurgeQueue", False),
        ("reader", "PeekMessages", True),
        ("reader", "ListQueues", True),
        ("reader", "ReceiveMessage", False),
    ],
)
def test_role(role: str, action: str, *, expected: bool) -> None:
    assert may(rights_for(role), action) is expected


def test_role_for_some_queues() -> None:
    rights = rights_for("producer", ["orders", "bills-*"])

    assert may(rights, "SendMessage", "orders")
    assert may(rights, "SendMessage", "bills-eu")
    assert not may(rights, "SendMessage", "orders-eu")
    assert not may(rights, "SendMessage", "orders", account="444455556666")
    assert may(rights_for("producer"), "SendMessage", "orders", account="444455556666")


def test_policy_of_its_own() -> None:
    statement = {"Effect": "Allow", "Action": "sqs:PurgeQueue", "Resource": "*"}

    assert may(json.dumps({"Statement": [statement]}), "PurgeQueue")
    assert not may(json.dumps({"Statement": [statement]}), "SendMessage")


@pytest.mark.parametrize("rights", ["{}", '{"role": "owner"}', '{"role": 1}', "[]"])
def test_unknown_rights_allow_nothing(rights: str) -> None:
    try:
        assert not may(rights, "SendMessage")
    except ValueError:
        return
    assert rights == "{}"


def test_roles_name_permissions_that_there_are() -> None:
    given = {action for actions in ROLES.values() for action in actions} - {"*"}

    assert given <= set(EVERY)


def test_operator_sees_all_and_leaves_queues_as_they_are() -> None:
    permitted = {permission for permission in EVERY if may(rights_for("operator"), permission)}

    assert {"DescribeDatabase", "PauseQueue", "ReleaseMessages"} <= permitted
    changes = {"AddPermission", "CreateQueue", "DeleteQueue", "PurgeQueue", "SetQueueAttributes"}
    assert not permitted & changes
