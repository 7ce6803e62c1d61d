"""Evaluates policies of AWS's policy language: who may use a queue, what an access key may do.

An explicit deny wins, then an allow; otherwise the answer is no. A statement with a condition
operator, a condition key or a variable that is not known here refuses: one that allows does not
apply, one that denies does.
Source: AWS Identity and Access Management User Guide, "IAM JSON policy reference" and "Policy
evaluation logic".
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import msgspec

from skipmq.auth.conditions import Condition, conditions
from skipmq.auth.patterns import Pattern, Unknown, is_arn

# Whom a statement is about: the user itself, or its account, whose own policies then decide.
Scope = Literal["user", "account"]

_VERSIONS = ("2008-10-17", "2012-10-17")
_OPPOSED = ("Principal", "Action", "Resource")
_MEMBERS = {"Sid", "Effect", "Condition", *_OPPOSED, *(f"Not{name}" for name in _OPPOSED)}
_ACTION = re.compile(r"\*|[A-Za-z0-9-]+:[A-Za-z0-9*?]+")
_ACCOUNT = re.compile("([0-9]{12})|arn:aws[a-z-]*:iam::([0-9]{12}):root")
_USER = re.compile("arn:aws[a-z-]*:(iam|sts)::[0-9]{12}:[!-~]+")
# What AWS puts in the place of a user or role that was deleted. Here none has one.
_UNIQUE_ID = re.compile("(AIDA|AROA|AGPA|AIPA|ANPA|ANVA|ASCA)[A-Z0-9]{12,124}")
_PRINCIPAL_TYPES = {"AWS", "Service", "Federated", "CanonicalUser"}


class Access(NamedTuple):
    """What is asked for: an action such as `sqs:SendMessage` on an ARN, by a user of an account.

    `context` has condition keys in lower case, such as `aws:sourceip`.
    """

    action: str
    resource: str
    account: str
    user: str
    context: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Statement:
    denies: bool
    principals: Callable[[Access], Scope | None]
    actions: Callable[[Access], bool]
    resources: Callable[[Access], bool]
    conditions: Sequence[Condition]

    def scope(self, access: Access) -> Scope | None:
        """Return to whom a statement applies, if it does."""
        scope = self.principals(access) if self.actions(access) else None
        if scope is None:
            return None
        try:
            met = self.resources(access) and all(each(access.context) for each in self.conditions)
        except Unknown:
            met = self.denies
        return scope if met else None


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy; the answers of a static one depend on nothing but who, what and on what."""

    statements: tuple[_Statement, ...]
    is_static: bool

    def evaluate(self, access: Access) -> Scope | Literal["denied"] | None:
        """Return that access is denied, or whom it is allowed to, or that nothing is said."""
        allowed: Scope | None = None
        for statement in self.statements:
            scope = statement.scope(access)
            if scope is not None and statement.denies:
                return "denied"
            allowed = allowed if scope is None or allowed == "user" else scope
        return allowed


def is_allowed(access: Access, owner: str, own: Policy, queue: Policy | None) -> bool:
    """Tell whether the caller's own policy and the policy of an owner's queue allow access.

    Within the account one of the two must, between accounts both. None may deny it.
    """
    mine = own.evaluate(access)
    theirs = queue.evaluate(access) if queue is not None else None
    if "denied" in (mine, theirs):
        return False
    if access.account == owner:
        return mine is not None or theirs == "user"
    return mine is not None and theirs is not None


@lru_cache(maxsize=256)
def parse(document: str, *, of_queue: bool) -> Policy:
    """Return a policy: of a queue, which says whom it is about, or of a key, which does not.

    Raises ValueError, which says where it is wrong.
    """
    try:
        content = msgspec.json.decode(document)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    _check_members(content, {"Version", "Id", "Statement"})
    version = content.get("Version", _VERSIONS[0])
    if version not in _VERSIONS:
        raise ValueError(f"Version must be {' or '.join(_VERSIONS)}")
    found = content.get("Statement", [])
    listed = found if isinstance(found, list) else [found]
    # In the first version what looks like a variable is text.
    statements = tuple(_statement(each, of_queue, version == _VERSIONS[1]) for each in listed)
    return Policy(statements, is_static=not any(_looks_further(each) for each in listed))


def _looks_further(statement: Mapping[str, Any]) -> bool:
    return "Condition" in statement or "${" in f"{[statement.get(k) for k in _MEMBERS]}"


def _statement(found: Any, of_queue: bool, variables: bool) -> _Statement:
    _check_members(found, _MEMBERS)
    effect = found.get("Effect")
    if effect not in ("Allow", "Deny"):
        raise ValueError("Effect must be Allow or Deny")
    if not of_queue and ("Principal" in found or "NotPrincipal" in found):
        raise ValueError("the policy of an access key has no Principal")
    return _Statement(
        effect == "Deny",
        _either(found, "Principal", _principals) if of_queue else _anybody,
        _either(found, "Action", _actions),
        _about(found, of_queue, variables),
        conditions(found.get("Condition", {}), variables=variables),
    )


def _check_members(found: Any, known: set[str]) -> None:
    if not isinstance(found, dict):
        raise ValueError("a policy and its statements are objects")  # noqa: TRY004 - not ours.
    if unknown := sorted(set(found) - known):
        raise ValueError(f"there is no member {unknown[0]}")


def _either(
    found: Mapping[str, Any], member: str, read: Callable[[Any], Callable[[Access], Any]]
) -> Callable[[Access], Any]:
    """Return what tests a member of a statement, or the opposite where it has `NotMember`."""
    opposite = f"Not{member}"
    if (member in found) == (opposite in found):
        raise ValueError(f"there must be either {member} or {opposite}")
    test = read(found.get(member, found.get(opposite)))
    if member in found:
        return test
    return lambda access: None if test(access) else "user"


def _texts(value: Any, member: str) -> list[str]:
    found = value if isinstance(value, list) else [value]
    if not found or not all(isinstance(each, str) for each in found):
        raise ValueError(f"{member} must be a text or a list of texts")
    return found


def _actions(value: Any) -> Callable[[Access], bool]:
    found = _texts(value, "Action")
    if wrong := [each for each in found if not _ACTION.fullmatch(each)]:
        raise ValueError(f"{wrong[0]} is not an action such as sqs:SendMessage")
    patterns = [Pattern(each, variables=False, fold=True) for each in found]
    return lambda access: any(each.matches(access.action, {}) for each in patterns)


def _about(found: Mapping[str, Any], of_queue: bool, variables: bool) -> Callable[[Access], Any]:
    """Return what tells whether a statement is about a resource.

    In the policy of a queue it is about this one where it names none.
    """
    if of_queue and not {"Resource", "NotResource"} & set(found):
        return _anybody
    return _either(found, "Resource", lambda value: _resources(value, of_queue, variables))


def _resources(value: Any, of_queue: bool, variables: bool) -> Callable[[Access], bool]:
    found = _texts(value, "Resource")
    arns = [each for each in found if each == "*" or is_arn(each)]
    # As on AWS, what is none stands in the policy of a queue and means nothing.
    if len(arns) < len(found) and not of_queue:
        wrong = next(each for each in found if each not in arns)
        raise ValueError(f"{wrong} is not an ARN such as arn:aws:sqs:*:*:orders-*")
    patterns = [Pattern(each, variables=variables) for each in arns]
    return lambda access: any(each.matches(access.resource, access.context) for each in patterns)


def _anybody(_: Access) -> Scope:
    return "user"


def _principals(value: Any) -> Callable[[Access], Scope | None]:
    """Return what tells whether a caller is named, by itself or by its account.

    Services, federated and canonical users never call SkipMQ.
    """
    value = {"AWS": value} if value == "*" else value
    if not isinstance(value, dict) or not value or not set(value) <= _PRINCIPAL_TYPES:
        raise ValueError('Principal must be "*" or an object such as {"AWS": "111122223333"}')
    named = [each for kind, found in value.items() for each in _texts(found, kind) if kind == "AWS"]
    if "*" in named:
        return _anybody
    accounts = {match[1] or match[2] for each in named if (match := _ACCOUNT.fullmatch(each))}
    users = {each for each in named if not (_ACCOUNT.fullmatch(each) or _UNIQUE_ID.fullmatch(each))}
    if wrong := [each for each in users if not _USER.fullmatch(each)]:
        raise ValueError(f"{wrong[0]} is neither an account nor the ARN of a user")

    def scope(access: Access) -> Scope | None:
        if access.user in users:
            return "user"
        return "account" if access.account in accounts else None

    return scope
