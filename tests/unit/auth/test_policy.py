"""Policies, case by case: AWS's rules of evaluation, and what is not known here refuses."""

from typing import Any

import pytest

from skipmq.auth.policy import parse
from support.policies import (
    ALICE,
    CAROL,
    DENIED,
    NOTHING,
    ORDERS,
    OTHER,
    OWN,
    OWN_DENIED,
    OWNER,
    allowed,
    document,
    shared,
    statement,
)


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
