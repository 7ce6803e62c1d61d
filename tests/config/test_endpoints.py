"""Queues of SQS endpoints that run: what differs between them, and what goes wrong."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from skipmq.config.imports import sqs
from skipmq.testing import Account
from support.http import client, environment
from support.imports import AWS, run, shown

PLACE = ("000000000000", "us-east-1")
# How many pages ten queues are on, four at a time: ElasticMQ has but one page.
PAGES = {"account": 3, "moto": 3, "elasticmq": 1}


@pytest.fixture(params=PAGES)
def endpoint(request: pytest.FixtureRequest) -> tuple[str, Any]:
    """Give the kind of an endpoint, and a client of it."""
    found = request.getfixturevalue(request.param)
    made = found.client() if isinstance(found, Account) else client(found, key="x", secret="x")
    return request.param, made


def test_queues_of_elasticmq(url: str, elasticmq: str, tmp_path: Path) -> None:
    theirs = client(elasticmq, key="x", secret="x", region="elasticmq")
    dead = theirs.create_queue(QueueName="emq-dead")["QueueUrl"]
    asked = theirs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])
    arn = asked["Attributes"]["QueueArn"]
    redrive = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": "4"})
    theirs.create_queue(
        QueueName="emq-jobs",
        Attributes={"VisibilityTimeout": "7", "DelaySeconds": "3", "RedrivePolicy": redrive},
        tags={"team": "shop"},
    )
    fifo = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    theirs.create_queue(QueueName="emq.fifo", Attributes=fifo)
    words = ("import", "--from-sqs", "--endpoint-url", elasticmq, "--region", "elasticmq")
    words = (*words, "--prefix", "emq")

    first = run(url, *words)

    assert "3 created" in first.stdout
    jobs = shown(url, "emq-jobs")
    assert (jobs["visibility_timeout"], jobs["delay_seconds"]) == (7, 3)
    assert jobs["redrive_policy"] == {
        "deadLetterTargetArn": "arn:aws:sqs:us-east-1:000000000000:emq-dead",
        "maxReceiveCount": 4,
    }
    assert json.loads(run(url, "queue", "tag", "emq-jobs", "--json").stdout)["tags"] == {
        "team": "shop"
    }
    assert shown(url, "emq.fifo")["content_based_deduplication"] is True
    assert "3 unchanged" in run(url, *words).stdout
    file = tmp_path / "queues.toml"
    file.write_text(run(url, *words, "--print").stdout)
    assert set(tomllib.loads(file.read_text())["queues"]) == {"emq-dead", "emq-jobs", "emq.fifo"}
    assert "3 unchanged" in run(url, "import", str(file)).stdout


def test_pages_are_followed_and_a_queue_deleted_meanwhile_is_named(
    endpoint: tuple[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, theirs = endpoint
    monkeypatch.setattr(sqs, "_PAGE", 4)
    names = [f"paged-{number}" for number in range(10)]
    for name in names:
        theirs.create_queue(QueueName=name)
    pages = []

    def delete_when_listed(parsed: dict[str, Any], **_: Any) -> None:
        pages.append(len(parsed["QueueUrls"]))
        if "NextToken" not in parsed:
            theirs.delete_queue(QueueUrl=theirs.get_queue_url(QueueName="paged-3")["QueueUrl"])

    theirs.meta.events.register("after-call.sqs.ListQueues", delete_when_listed)
    found = sqs.read(theirs, *PLACE, prefix="paged-")
    theirs.meta.events.unregister("after-call.sqs.ListQueues", delete_when_listed)

    assert sorted(queue.name for queue in found.queues) == sorted({*names} - {"paged-3"})
    assert [(each.where, each.remedy) for each in found.differences] == [
        ("paged-3", "it was deleted meanwhile")
    ]
    assert sum(pages) == len(names)
    assert len(pages) == PAGES[kind]


@pytest.mark.parametrize(
    ("variables", "why"),
    [
        (
            {},
            "there are no credentials for the endpoint: set AWS_ACCESS_KEY_ID and"
            " AWS_SECRET_ACCESS_KEY, or AWS_PROFILE. LocalStack, moto and ElasticMQ take any",
        ),
        (
            {"AWS_PROFILE": "none"},
            "there is no profile none in the files of the AWS CLI: `aws configure list-profiles`"
            " lists them, and AWS_PROFILE names one",
        ),
    ],
)
def test_without_credentials_one_line_says_what_to_set(
    moto: str, tmp_path: Path, variables: dict[str, str], why: str
) -> None:
    files = ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE")
    others = dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "")
    others |= {name: str(tmp_path / name) for name in files} | variables
    words = ("--from-sqs", "--endpoint-url", moto, "--region", "us-east-1")

    done = run("postgresql:///nowhere", "import", *words, code=2, **others)

    assert done.stderr == f"skipmq: {why}\n"
    assert done.stdout == ""


def test_without_boto3_one_line_says_what_to_install() -> None:
    program = "import sys; sys.modules['boto3'] = None; from skipmq.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "import", "--from-sqs", "--region", "us-east-1"],
        env=environment({"database_url": "postgresql:///nowhere"}) | AWS,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 1
    assert done.stderr == (
        "skipmq: `skipmq import --from-sqs` needs boto3: pip install 'skipmq[testing]'\n"
    )
