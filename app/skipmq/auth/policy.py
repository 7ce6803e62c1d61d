"""Evaluation of queue policies and access key policies in AWS's policy language; roles of keys.

An explicit deny overrides an allow; the default is to deny. A statement with an unsupported
condition operator, condition key or variable fails closed: an Allow does not apply, a Deny does.
The rights of an access key are a predefined role on some queues, or a policy of its own.
Source: AWS Identity and Access Management User Guide, "IAM JSON policy reference" and "Policy
evaluation logic".
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import msgspec

from skipmq.auth.conditions import Condition, Pattern, UnsupportedElementError, conditions, is_arn

# The principal of a statement: the user, or its account, which delegates with policies of its own.
Scope = Literal["user", "account"]

_VERSIONS = ("2008-10-17", "2012-10-17")
_NEGATABLE = ("Principal", "Action", "Resource")
_MEMBERS = {"Sid", "Effect", "Condition", *_NEGATABLE, *(f"Not{name}" for name in _NEGATABLE)}
_ACTION = re.compile(r"\*|[A-Za-z0-9-]+:[A-Za-z0-9*?]+")
_ACCOUNT = re.compile("([0-9]{12})|arn:aws[a-z-]*:iam::([0-9]{12}):root")
_USER = re.compile("arn:aws[a-z-]*:(iam|sts)::[0-9]{12}:[!-~]+")
# The ID by which AWS replaces a deleted user or role; it matches no user of SkipMQ.
_UNIQUE_ID = re.compile("(AIDA|AROA|AGPA|AIPA|ANPA|ANVA|ASCA)[A-Z0-9]{12,124}")
_PRINCIPAL_TYPES = {"AWS", "Service", "Federated", "CanonicalUser"}
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


class Access(NamedTuple):
    """An access to authorize: an action such as `sqs:SendMessage` on an ARN, by a user.

    The condition keys of `context` are in lower case, such as `aws:sourceip`.
    """

    action: str
    resource: str
    account: str
    user: str
    context: Mapping[str, str]
    # The principal, if it is a service and no user.
    service: str = ""


@dataclass(frozen=True, slots=True)
class _Statement:
    denies: bool
    principals: Callable[[Access], Scope | None]
    actions: Callable[[Access], bool]
    resources: Callable[[Access], bool]
    conditions: Sequence[Condition]

    def scope(self, access: Access) -> Scope | None:
        """Return the scope in which the statement applies, or None."""
        scope = self.principals(access) if self.actions(access) else None
        if scope is None:
            return None
        try:
            met = self.resources(access) and all(each(access.context) for each in self.conditions)
        except UnsupportedElementError:
            met = self.denies
        return scope if met else None


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy; decisions of a static policy do not depend on the context of the request."""

    statements: tuple[_Statement, ...]
    is_static: bool

    def evaluate(self, access: Access) -> Scope | Literal["denied"] | None:
        """Return "denied", the scope that is allowed, or None if no statement applies."""
        allowed: Scope | None = None
        for statement in self.statements:
            scope = statement.scope(access)
            if scope is not None and statement.denies:
                return "denied"
            allowed = allowed if scope is None or allowed == "user" else scope
        return allowed


def is_allowed(access: Access, owner: str, own: Policy, queue: Policy | None) -> bool:
    """Return whether the caller's own policy and the policy of an owner's queue allow access.

    Within an account one of the two must allow it, across accounts both. A deny in either wins.
    """
    own_scope = own.evaluate(access)
    queue_scope = queue.evaluate(access) if queue is not None else None
    if "denied" in (own_scope, queue_scope):
        return False
    if access.account == owner:
        return own_scope is not None or queue_scope == "user"
    return own_scope is not None and queue_scope is not None


@lru_cache(maxsize=256)
def parse(document: str, *, of_queue: bool) -> Policy:
    """Parse the policy of a queue, which names principals, or of an access key, which does not.

    Raises ValueError with the reason.
    """
    try:
        content = msgspec.json.decode(document)
    except RecursionError as error:
        raise ValueError("the policy is nested too deeply") from error
    _check_members(content, {"Version", "Id", "Statement"})
    version = content.get("Version", _VERSIONS[0])
    if version not in _VERSIONS:
        raise ValueError(f"Version must be {' or '.join(_VERSIONS)}")
    statements = content.get("Statement", [])
    listed = statements if isinstance(statements, list) else [statements]
    # The first version of the language has no variables.
    parsed = tuple(_statement(each, of_queue, version == _VERSIONS[1]) for each in listed)
    return Policy(parsed, is_static=not any(_depends_on_context(each) for each in listed))


def _depends_on_context(statement: Mapping[str, Any]) -> bool:
    return "Condition" in statement or "${" in f"{[statement.get(k) for k in _MEMBERS]}"


def _statement(content: Any, of_queue: bool, variables: bool) -> _Statement:
    _check_members(content, _MEMBERS)
    effect = content.get("Effect")
    if effect not in ("Allow", "Deny"):
        raise ValueError("Effect must be Allow or Deny")
    if not of_queue and ("Principal" in content or "NotPrincipal" in content):
        raise ValueError("the policy of an access key must not have a Principal")
    return _Statement(
        effect == "Deny",
        _negatable(content, "Principal", _principals) if of_queue else _every_user,
        _negatable(content, "Action", _actions),
        _resource(content, of_queue, variables),
        conditions(content.get("Condition", {}), of_queue=of_queue, variables=variables),
    )


def _check_members(content: Any, allowed: set[str]) -> None:
    if not isinstance(content, dict):
        raise ValueError("a policy and its statements must be objects")  # noqa: TRY004 - input.
    if unknown := sorted(set(content) - allowed):
        raise ValueError(f"unknown member {unknown[0]}")


def _negatable(
    content: Mapping[str, Any], member: str, make: Callable[[Any], Callable[[Access], Any]]
) -> Callable[[Access], Any]:
    """Return the test for a member of a statement, negated if the statement has `NotMember`."""
    opposite = f"Not{member}"
    if (member in content) == (opposite in content):
        raise ValueError(f"a statement must have either {member} or {opposite}")
    test = make(content.get(member, content.get(opposite)))
    if member in content:
        return test
    return lambda access: None if test(access) else "user"


def _strings(value: Any, member: str) -> list[str]:
    strings = value if isinstance(value, list) else [value]
    if not strings or not all(isinstance(each, str) for each in strings):
        raise ValueError(f"{member} must be a string or a list of strings")
    return strings


def _actions(value: Any) -> Callable[[Access], bool]:
    actions = _strings(value, "Action")
    if invalid := [each for each in actions if not _ACTION.fullmatch(each)]:
        raise ValueError(f"{invalid[0]} is not an action such as sqs:SendMessage")
    patterns = [Pattern(each, variables=False, fold=True) for each in actions]
    return lambda access: any(each.matches(access.action, {}) for each in patterns)


def _resource(
    content: Mapping[str, Any], of_queue: bool, variables: bool
) -> Callable[[Access], Any]:
    """Return the test for the resource; a queue policy that names none is about its own queue."""
    if of_queue and not {"Resource", "NotResource"} & set(content):
        return _every_user
    return _negatable(content, "Resource", lambda value: _resources(value, of_queue, variables))


def _resources(value: Any, of_queue: bool, variables: bool) -> Callable[[Access], bool]:
    resources = _strings(value, "Resource")
    arns = [each for each in resources if each == "*" or is_arn(each)]
    # Like AWS, accept malformed ARNs in the policy of a queue; they match nothing.
    if len(arns) < len(resources) and not of_queue:
        invalid = next(each for each in resources if each not in arns)
        raise ValueError(f"{invalid} is not an ARN such as arn:aws:sqs:*:*:orders-*")
    patterns = [Pattern(each, variables=variables) for each in arns]
    return lambda access: any(each.matches(access.resource, access.context) for each in patterns)


def _every_user(_: Access) -> Scope:
    return "user"


def _principals(value: Any) -> Callable[[Access], Scope | None]:
    """Return the test whether a statement names the caller or its account.

    Federated and canonical users never call SkipMQ; of services only SNS, for a topic.
    """
    value = {"AWS": value} if value == "*" else value
    if not isinstance(value, dict) or not value or not set(value) <= _PRINCIPAL_TYPES:
        raise ValueError('Principal must be "*" or an object such as {"AWS": "111122223333"}')
    by_kind = {kind: _strings(names, kind) for kind, names in value.items()}
    named, services = by_kind.get("AWS", []), by_kind.get("Service", [])
    if "*" in named:
        return _every_user
    accounts = {match[1] or match[2] for each in named if (match := _ACCOUNT.fullmatch(each))}
    users = {each for each in named if not (_ACCOUNT.fullmatch(each) or _UNIQUE_ID.fullmatch(each))}
    if invalid := [each for each in users if not _USER.fullmatch(each)]:
        raise ValueError(f"{invalid[0]} is neither an account nor the ARN of a user")

    def scope(access: Access) -> Scope | None:
        if access.service:
            return "user" if access.service in services or "*" in services else None
        if access.user in users:
            return "user"
        return "account" if access.account in accounts else None

    return scope


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
