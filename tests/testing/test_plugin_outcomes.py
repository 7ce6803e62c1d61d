"""What tests with the plugin come to, in one run of pytest for all."""

import re
from collections import Counter
from collections.abc import Callable

import pytest

from support import runs

Outcomes = Callable[[str], tuple[str, ...]]
FAULTS = """
from skipmq.testing import TestCase

def test_fixture(skipmq):
    skipmq.fail("SendMessage")
    skipmq.duplicate()

def test_fixture_that_is_reset(skipmq):
    skipmq.fail("SendMessage")
    skipmq.reset()

class Case(TestCase):
    def test_case(self):
        self.skipmq.fail("SendMessage")
        self.skipmq.duplicate()
"""
APPLICATION = """
import os, subprocess, sys, boto3, pytest

@pytest.mark.parametrize("number", range(2))
def test_application(skipmq_env, number):
    assert os.environ["AWS_ACCESS_KEY_ID"] == skipmq_env.number
    skipmq_env.client().create_queue(QueueName="orders")
    url = boto3.client("sqs").get_queue_url(QueueName="orders")["QueueUrl"]
    boto3.resource("sqs").Queue(url).send_message(MessageBody="x")
    assert skipmq_env.messages("orders").bodies() == ["x"]

def test_variables_are_those_of_before():
    assert "AWS_ENDPOINT_URL_SQS" not in os.environ
    assert boto3.DEFAULT_SESSION is None
"""
DECLARED = """
import pytest

@pytest.mark.parametrize("number", range(2))
def test_declared(skipmq, number):
    sqs = skipmq.client()
    url = sqs.get_queue_url(QueueName="declared")["QueueUrl"]
    names = ["QueueArn", "VisibilityTimeout"]
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    assert found["QueueArn"].startswith("arn:aws:sqs:eu-west-3:")
    assert found["VisibilityTimeout"] == "3"
    assert skipmq.messages("declared") == []
    sqs.send_message(QueueUrl=url, MessageBody="x")
"""
CONFIGURATION = """
skipmq_queues = queues.toml
skipmq_settings =
  region = eu-west-3
"""
CREDENTIALS_OF_MOTO = """
import boto3, pytest
from skipmq.testing import TestingError

def test_order(skipmq_env, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    boto3.client("sqs").create_queue(QueueName="orders")
    with pytest.raises(TestingError, match="There is one in the account 000000000000, of clients"):
        skipmq_env.messages("orders")
    with pytest.raises(TestingError, match="does not exist.$"):
        skipmq_env.messages("others")
"""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """Run some files of tests at once; give what returns the outcomes of one, and what it says."""
    folder = runs.folder(tmp_path_factory.mktemp("outcomes"))
    with (folder / "pytest.ini").open("a") as file:
        file.write(CONFIGURATION)
    (folder / "queues.toml").write_text("[queues.declared]\nVisibilityTimeout = 3\n")
    files = {"application": APPLICATION, "credentials": CREDENTIALS_OF_MOTO}
    files |= {"declared": DECLARED, "faults": FAULTS}
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    others = {k: v for k, v in runs.variables().items() if not k.startswith("AWS_")}
    said = runs.run(folder, others | {"AWS_SESSION_TOKEN": "of others"}, "-v", code=1)
    return lambda name: (*re.findall(rf"^test_{name}\.py::\S+ ([A-Z]+)", said, re.MULTILINE), said)


def test_fault_that_no_request_meets_fails_the_test(outcomes: Outcomes) -> None:
    *found, said = outcomes("faults")

    assert Counter(found) == {"FAILED": 1, "PASSED": 2, "ERROR": 1}
    text = "^E .*TestingError: no request has met fail of SendMessage, duplicate of"
    assert len(re.findall(text, said, re.MULTILINE)) == 2


def test_queues_and_settings_stand_in_the_configuration(outcomes: Outcomes) -> None:
    *found, said = outcomes("declared")

    assert found == ["PASSED"] * 2, said


def test_clients_of_the_tested_code_find_the_account(outcomes: Outcomes) -> None:
    *found, said = outcomes("application")

    assert found == ["PASSED"] * 3, said


def test_queue_of_a_client_with_other_variables_is_found(outcomes: Outcomes) -> None:
    *found, said = outcomes("credentials")

    assert found == ["PASSED"], said
