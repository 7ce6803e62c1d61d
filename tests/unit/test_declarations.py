"""Attributes of declared queues: their texts, and the queues that policies name."""

import json
from typing import Any

import pytest

from skipmq.config import declarations

ACCOUNT, REGION = "123456789012", "eu-central-1"
ARN = f"arn:aws:sqs:{REGION}:{ACCOUNT}:dead"
OTHER = "arn:aws:sqs:us-east-1:000000000000:dead"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("5", "5"),
        (5, "5"),
        (True, "true"),
        ({"maxReceiveCount": 3}, '{"maxReceiveCount": 3}'),
        (["é"], '["é"]'),
    ],
)
def test_text_of_a_value(value: Any, text: str) -> None:
    assert declarations.text(value) == text


@pytest.mark.parametrize(("given", "arn"), [("dead", ARN), (ARN, ARN), (OTHER, OTHER)])
def test_queue_of_a_redrive_policy_may_be_its_name(given: str, arn: str) -> None:
    policy = json.dumps({"deadLetterTargetArn": given, "maxReceiveCount": 3})

    named = declarations.with_arns("RedrivePolicy", policy, ACCOUNT, REGION)

    assert json.loads(named) == {"deadLetterTargetArn": arn, "maxReceiveCount": 3}


def test_sources_of_a_dead_letter_queue_may_be_names() -> None:
    policy = json.dumps({"redrivePermission": "byQueue", "sourceQueueArns": ["dead", OTHER]})

    named = declarations.with_arns("RedriveAllowPolicy", policy, ACCOUNT, REGION)

    assert json.loads(named)["sourceQueueArns"] == [ARN, OTHER]


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("DelaySeconds", "5"),
        ("RedrivePolicy", ""),
        ("RedrivePolicy", "no JSON"),
        ("RedrivePolicy", '["dead"]'),
        ("RedrivePolicy", '{"maxReceiveCount": 3}'),
        ("RedriveAllowPolicy", '{"redrivePermission": "denyAll"}'),
    ],
)
def test_what_names_no_queue_is_left_as_it_is(attribute: str, value: str) -> None:
    assert declarations.with_arns(attribute, value, ACCOUNT, REGION) == value


def test_value_that_is_no_text_is_left_to_the_checks() -> None:
    policy = '{"deadLetterTargetArn": 3}'

    assert json.loads(declarations.with_arns("RedrivePolicy", policy, ACCOUNT, REGION)) == {
        "deadLetterTargetArn": 3
    }
