"""Policies, case by case: AWS's rules of evaluation, and what is not known here refuses."""

import json
from typing import Any

import pytest

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


# The tables of "Policy evaluation logic": within an account either allows, between accounts both
# must, and a deny of any wins.
@pytest.mark.parametrize(
    ("user", "own", "queue", "expected"),
    [
        (ALICE, NOTHING, None, False),
        (ALICE, OWN, None, True),
        (ALICE, NOTHING, document(shared()), True),
        (ALICE, NOTHING, document(shared(Principal={"AWS": ALICE})), True),
        # The account as such: its own policies decide.
        (ALICE, NOTHING, document(shared(Principal={"AWS": OWNER})), False),
        (ALICE, OWN, document(shared(Principal={"AWS": OTHER})), True),
        (ALICE, OWN, DENIED, False),
        (ALICE, OWN_DENIED, document(shared()), False),
        (ALICE, document(statement(), statement("Deny")), None, False),
        (ALICE, OWN, document(shared("Deny", Principal={"AWS": CAROL})), True),
        (CAROL, OWN, None, False),
        (CAROL, NOTHING, document(shared()), False),
        (CAROL, OWN, document(shared()), True),
        (CAROL, OWN, document(shared(Principal={"AWS": OTHER})), True),
        (CAROL, OWN, document(shared(Principal={"AWS": f"arn:aws:iam::{OTHER}:root"})), True),
        (CAROL, OWN, document(shared(Principal={"AWS": CAROL})), True),
        (CAROL, OWN, document(shared(Principal={"AWS": [ALICE, OWNER]})), False),
        (CAROL, OWN, document(shared(), shared("Deny", Principal={"AWS": OTHER})), False),
        (CAROL, OWN_DENIED, document(shared()), False),
        (CAROL, OWN, DENIED, False),
        (CAROL, OWN, document(shared(Principal={"Service": "sns.amazonaws.com"})), False),
    ],
)
def test_policies_of_caller_and_queue(
    user: str, own: str, queue: str | None, *, expected: bool
) -> None:
    assert allowed(own, queue, user=user) is expected


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"Action": "*"}, True),
        ({"Action": "sqs:*"}, True),
        ({"Action": "SQS:sendmessage"}, True),
        ({"Action": ["sqs:ReceiveMessage", "sqs:Send*"]}, True),
        ({"Action": "sqs:SendMessag?"}, True),
        ({"Action": "sqs:SendMessage?"}, False),
        ({"Action": "s3:*"}, False),
        ({"Action": "sqs:Send"}, False),
        ({"Action": None, "NotAction": "sqs:DeleteQueue"}, True),
        ({"Action": None, "NotAction": ["sqs:DeleteQueue", "sqs:Send*"]}, False),
        ({"Resource": ORDERS}, True),
        ({"Resource": "arn:aws:sqs:*:*:orders"}, True),
        ({"Resource": "arn:aws:sqs:us-*-1:*:o?ders"}, True),
        ({"Resource": ["arn:aws:sqs:*:*:bills", ORDERS]}, True),
        ({"Resource": "arn:aws:sqs:*:*:order"}, False),
        ({"Resource": "arn:aws:sqs:*:*:Orders"}, False),
        # No wildcard reaches over a colon.
        ({"Resource": "arn:aws:*:*:*:*:orders"}, False),
        ({"Resource": "arn:aws:s*:*:*:rs"}, False),
        ({"Resource": None, "NotResource": "arn:aws:sqs:*:*:bills"}, True),
        ({"Resource": None, "NotResource": "arn:aws:sqs:*:*:o*"}, False),
        ({"Resource": "arn:aws:sqs:*:*:${aws:username}"}, False),
    ],
)
def test_actions_and_resources(members: dict[str, Any], *, expected: bool) -> None:
    assert allowed(document(statement(**members)), aws_username="alice") is expected


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        # About this queue.
        ({"Resource": None}, True),
        ({"Resource": None, "Action": "sqs:ReceiveMessage"}, False),
        ({"Resource": "orders"}, False),
        ({"Resource": "*orders"}, False),
        ({"Resource": "$sqs_queue_arn"}, False),
        ({"Resource": "${aws:username}"}, False),
        ({"Resource": f"http://localhost:9324/{OWNER}/orders"}, False),
        ({"Resource": "arn:aws:sqs:*"}, False),
        ({"Resource": ["orders", ORDERS]}, True),
        ({"Resource": None, "NotResource": "orders"}, True),
        ({"Resource": None, "NotResource": ["orders", ORDERS]}, False),
        ({"Principal": {"AWS": "AIDACKCEVSQ6C2EXAMPLE"}}, False),
        ({"Principal": {"AWS": ["AROACKCEVSQ6C2EXAMPLE", OTHER]}}, True),
    ],
)
def test_policy_of_a_queue_may_name_no_resource_or_principal_that_there_is(
    members: dict[str, Any], *, expected: bool
) -> None:
    queue = document(shared(**members))

    assert allowed(OWN, queue, user=CAROL) is expected
    # What denies denies just where the other allows.
    deny = document(shared(), shared("Deny", **members))
    assert allowed(OWN, deny, user=CAROL) is not expected


NO_ARNS = ["'$sns_topic_arn'", "my-topic", "*role*", "arn:aws:sns:topic", ""]


@pytest.mark.parametrize("operator", ["ArnEquals", "ArnLike", "ArnEqualsIfExists"])
@pytest.mark.parametrize("value", NO_ARNS)
def test_condition_of_a_queue_on_a_malformed_arn_matches_nothing(operator: str, value: str) -> None:
    condition = {operator: {"aws:PrincipalArn": value}}
    context = {"aws_principalarn": CAROL}

    assert not allowed(OWN, document(shared(Condition=condition)), user=CAROL, **context)
    deny = document(shared(), shared("Deny", Condition=condition))
    assert allowed(OWN, deny, user=CAROL, **context)
    both = {operator: {"aws:PrincipalArn": [value, CAROL]}}
    assert allowed(OWN, document(shared(Condition=both)), user=CAROL, **context)
    negated = {operator.replace("Arn", "ArnNot"): {"aws:PrincipalArn": value}}
    assert allowed(OWN, document(shared(Condition=negated)), user=CAROL, **context)
    with pytest.raises(ValueError, match=operator):
        parse(document(statement(Condition=condition)), of_queue=False)


def test_condition_of_a_queue_on_an_arn_that_is_a_variable_refuses() -> None:
    condition = {"ArnEquals": {"aws:PrincipalArn": "${aws:PrincipalArn}"}}
    context = {"aws_principalarn": CAROL}

    assert not allowed(OWN, document(shared(Condition=condition)), user=CAROL, **context)
    deny = document(shared(), shared("Deny", Condition=condition))
    assert not allowed(OWN, deny, user=CAROL, **context)


@pytest.mark.parametrize(
    ("operator", "key", "value"),
    [
        ("IpAddress", "aws:SourceIp", "localhost"),
        ("NotIpAddress", "aws:SourceIp", "10.0.0.0/40"),
        ("Bool", "aws:SecureTransport", "yes"),
        ("Null", "aws:SourceArn", "maybe"),
        ("DateLessThan", "aws:CurrentTime", "soon"),
        ("NumericEquals", "aws:EpochTime", "x"),
    ],
)
@pytest.mark.parametrize("of_queue", [True, False])
def test_other_conditions_on_malformed_values_are_refused(
    operator: str, key: str, value: str, *, of_queue: bool
) -> None:
    condition = {operator: {key: value}}
    made = shared(Condition=condition) if of_queue else statement(Condition=condition)

    with pytest.raises(ValueError, match=operator):
        parse(document(made), of_queue=of_queue)


@pytest.mark.parametrize(
    ("members", "user", "expected"),
    [
        ({"NotPrincipal": {"AWS": CAROL}}, ALICE, True),
        ({"NotPrincipal": {"AWS": [ALICE, OWNER]}}, ALICE, False),
        ({"NotPrincipal": "*"}, ALICE, False),
    ],
)
def test_everybody_but_some(members: dict[str, Any], user: str, *, expected: bool) -> None:
    assert allowed(NOTHING, document(shared(**members)), user=user) is expected


@pytest.mark.parametrize(
    ("operator", "value", "sent", "expected"),
    [
        ("StringEquals", "alice", "alice", True),
        ("StringEquals", ["bob", "alice"], "alice", True),
        ("StringEquals", "Alice", "alice", False),
        ("StringEquals", "al*", "alice", False),
        ("StringEquals", "al*", "al*", True),
        ("StringNotEquals", ["bob", "alice"], "alice", False),
        ("StringNotEquals", ["bob", "carol"], "alice", True),
        ("StringEqualsIgnoreCase", "ALICE", "alice", True),
        ("StringNotEqualsIgnoreCase", "ALICE", "alice", False),
        ("StringLike", "a*e", "alice", True),
        ("StringLike", "a?e", "alice", False),
        ("StringNotLike", "a*", "alice", False),
        ("ForAnyValue:StringEquals", "alice", "alice", True),
        ("NumericEquals", "10", "10.0", True),
        ("NumericNotEquals", 10, "11", True),
        ("NumericLessThan", "10", "9.5", True),
        ("NumericLessThanEquals", "10", "10", True),
        ("NumericGreaterThan", "10", "10", False),
        ("NumericGreaterThanEquals", "10", "x", False),
        ("DateLessThan", "2026-01-01T00:00:00Z", "2025-12-31T23:59:59Z", True),
        ("DateGreaterThan", "2026-01-01", "2026-01-01T00:00:01+00:00", True),
        ("DateEquals", "1767225600", "2026-01-01T00:00:00Z", True),
        ("DateNotEquals", "2026-01-01T01:00:00+01:00", "2026-01-01T00:00:00Z", False),
        ("Bool", "true", "true", True),
        ("Bool", True, "true", True),
        ("Bool", "false", "true", False),
        ("IpAddress", "10.0.0.0/8", "10.1.2.3", True),
        ("IpAddress", ["192.0.2.1", "10.0.0.0/8"], "192.0.2.1", True),
        ("IpAddress", "10.0.0.0/8", "11.1.2.3", False),
        ("IpAddress", "10.0.0.0/8", "nowhere", False),
        ("IpAddress", "2001:db8::/32", "2001:db8::1", True),
        ("NotIpAddress", "10.0.0.0/8", "10.1.2.3", False),
        ("NotIpAddress", "10.0.0.0/8", "11.1.2.3", True),
        ("NotIpAddress", "10.0.0.0/8", "2001:db8::1", True),
        ("IpAddress", "0.0.0.0/0", "11.1.2.3", True),
        ("ArnEquals", "arn:aws:sns:*:*:topic", "arn:aws:sns:us-east-1:1:topic", True),
        ("ArnLike", "arn:aws:sns:*:topic", "arn:aws:sns:us-east-1:1:topic", None),
        ("ArnLike", "arn:aws:sns:*:1:*", "arn:aws:sns:us-east-1:1:a:b", True),
        ("ArnNotLike", "arn:aws:sns:*:1:*", "arn:aws:sns:us-east-1:1:a", False),
        ("Null", "true", "alice", False),
        ("Null", "false", "alice", True),
        ("Null", True, None, True),
        # The request has no such key.
        ("StringEquals", "alice", None, False),
        ("StringNotEquals", "alice", None, True),
        ("StringEqualsIfExists", "alice", None, True),
        ("StringNotLikeIfExists", "alice", None, True),
        ("ForAnyValue:StringEquals", "alice", None, False),
        ("IpAddressIfExists", "10.0.0.0/8", None, True),
        # Not known here: an allow does not apply.
        ("StringResembles", "alice", "alice", False),
        ("ForAllValues:StringEquals", "alice", "alice", False),
        ("BinaryEquals", "YQ==", "a", False),
        ("NullIfExists", "true", None, False),
        ("StringNotNotEquals", "bob", "alice", False),
    ],
)
def test_conditions(operator: str, value: Any, sent: str | None, *, expected: bool | None) -> None:
    condition = {operator: {"aws:UserName": value}}
    own = document(statement(Condition=condition))
    if expected is None:
        with pytest.raises(ValueError, match=operator):
            parse(own, of_queue=False)
        return
    context = {} if sent is None else {"aws_username": sent}
    assert allowed(own, **context) is expected


@pytest.mark.parametrize(
    "condition",
    [
        {"StringResembles": {"aws:username": "bob"}},
        {"StringEquals": {"aws:SourceVpc": "vpc-1"}},
        {"StringEquals": {"aws:sorceip": "bob"}},
        {"ForAllValues:StringEquals": {"aws:username": "bob"}},
        {"StringEquals": {"aws:username": "${aws:PrincipalTag/team}"}},
        {"Bool": {"aws:MultiFactorAuthPresent": "true"}},
    ],
)
def test_what_is_not_known_refuses(condition: dict[str, Any]) -> None:
    context = {"aws_username": "alice"}

    assert not allowed(document(statement(Condition=condition)), **context)
    assert not allowed(document(statement(), statement("Deny", Condition=condition)), **context)


def test_all_conditions_must_be_met() -> None:
    condition = {
        "IpAddress": {"aws:SourceIp": "10.0.0.0/8"},
        "StringEquals": {"aws:username": "alice", "aws:PrincipalAccount": OWNER},
    }
    own = document(statement(Condition=condition))
    met = {"aws_sourceip": "10.0.0.1", "aws_username": "alice", "aws_principalaccount": OWNER}

    assert allowed(own, **met)
    for key in met:
        assert not allowed(own, **met | {key: "other"})


@pytest.mark.parametrize("network", ["192.0.2.0/24", "::ffff:192.0.2.0/120", "::ffff:c000:207"])
@pytest.mark.parametrize("address", ["192.0.2.7", "::ffff:192.0.2.7", "::ffff:c000:207"])
def test_ipv4_address_has_one_form(network: str, address: str) -> None:
    denied = statement("Deny", Condition={"IpAddress": {"aws:SourceIp": network}})
    others = statement("Deny", Condition={"NotIpAddress": {"aws:SourceIp": network}})

    assert not allowed(document(statement(), denied), aws_sourceip=address)
    assert allowed(document(statement(), others), aws_sourceip=address)
    assert allowed(document(statement(), denied), aws_sourceip="::ffff:192.0.3.7")


def test_variables() -> None:
    own = document(statement(Resource="arn:aws:sqs:*:*:${aws:username}-*"))
    first_version = document(
        statement(Resource="arn:aws:sqs:*:*:${aws:username}-*"), version="2008-10-17"
    )
    resource = f"arn:aws:sqs:us-east-1:{OWNER}:alice-orders"

    assert allowed(own, resource=resource, aws_username="alice")
    assert not allowed(own, resource=resource, aws_username="bob")
    # A value is no pattern, and brings no part of an ARN.
    assert not allowed(own, resource=resource, aws_username="a*")
    assert not allowed(own, resource=resource, aws_username="x:alice")
    assert not allowed(own, resource=resource)
    assert not allowed(first_version, resource=resource, aws_username="alice")
    literal = document(statement(Condition={"StringLike": {"aws:username": "${*}${?}${$}"}}))
    assert allowed(literal, aws_username="*?$")
    assert not allowed(literal, aws_username="abc")
    default = document(
        statement(Condition={"StringEquals": {"aws:username": "${aws:useragent, 'alice'}"}})
    )
    assert allowed(default, aws_username="alice")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "malformed|truncated"),
        ("[]", "object"),
        ('"*"', "object"),
        ("[" * 100_000, "nested|malformed|truncated"),
        ('{"Statement": "x"}', "object"),
        ('{"Version": "2020-01-01"}', "Version"),
        ('{"Statements": []}', "Statements"),
        (document(statement(Effect="allow")), "Effect"),
        (document(statement(Effect=None)), "Effect"),
        (document(statement(Action=None)), "Action"),
        (document(statement(NotAction="sqs:*")), "either Action or NotAction"),
        (document(statement(Action="SendMessage")), "SendMessage is not an action"),
        (document(statement(Action=[])), "Action"),
        (document(statement(Action=[1])), "Action"),
        (document(statement(Resource=None)), "Resource"),
        (document(statement(Resource="orders")), "orders is not an ARN"),
        (document(statement(Resource="arn:aws:sqs:*")), "is not an ARN"),
        (document(statement(Principal="*")), "must not have a Principal"),
        (document(statement(Condition=[])), "Condition"),
        (document(statement(Condition={"Bool": {}})), "Bool"),
        (document(statement(Condition={"Bool": "true"})), "Bool"),
        (document(statement(Condition={"Bool": {"aws:username": []}})), "aws:username"),
        (document(statement(Condition={"Bool": {"aws:username": {}}})), "aws:username"),
        (document(statement(Condition={"Bool": {"aws:username": "yes"}})), "yes"),
        (document(statement(Condition={"IpAddress": {"aws:sourceip": "10.0.0.0/40"}})), "/40"),
        (document(statement(Condition={"DateLessThan": {"aws:currenttime": "soon"}})), "soon"),
        (document(statement(Condition={"NumericEquals": {"aws:epochtime": "x"}})), "x"),
        (document(statement(Conditions={})), "Conditions"),
    ],
)
def test_what_is_no_policy_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse(text, of_queue=False)


@pytest.mark.parametrize(
    "principal",
    [
        "alice",
        ALICE,
        {},
        [],
        {"AWS": []},
        {"AWS": "alice"},
        {"AWS": f"arn:aws:iam::{OWNER}:user/*\n"},
        {"AWS": f"{OWNER}:root"},
        {"Nobody": "*"},
    ],
)
def test_principal_that_nobody_can_be_is_refused(principal: Any) -> None:
    with pytest.raises(ValueError, match=r"Principal|neither|AWS"):
        parse(document(shared(Principal=principal)), of_queue=True)


def test_policy_of_a_queue_says_whom_it_is_about() -> None:
    with pytest.raises(ValueError, match="Principal"):
        parse(document(statement()), of_queue=True)


def test_wildcards_of_an_attacker_cost_no_time() -> None:
    """A pattern of many wildcards must not make the evaluation of a long value take for ever."""
    own = document(statement(Condition={"StringLike": {"aws:useragent": "*a" * 40 + "b"}}))

    assert not allowed(own, aws_useragent="a" * 2_000)
