"""Conditions of policies: AWS's operators, and values that are none of their type."""

from typing import Any

import pytest

from skipmq.auth.policy import parse
from support.policies import CAROL, OWN, OWNER, allowed, document, shared, statement

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
