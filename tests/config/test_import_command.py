"""`skipmq import` from a file and from SQS endpoints, into a real database."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from skipmq.testing import Account
from support.http import client
from support.imports import run, shown

CONF = """aws { region = elsewhere }
queues {
  jobs { defaultVisibilityTimeout = 7 seconds, copyTo = dead
         deadLettersQueue { name = dead, maxReceiveCount = 2 } }
  dead { deadLettersQueue { name = jobs, maxReceiveCount = 3 }, tags { team = shop } }
}
"""


def test_conf_is_imported_once_with_a_cycle_of_dead_letters(url: str, tmp_path: Path) -> None:
    file = tmp_path / "elasticmq.conf"
    file.write_text(CONF)

    first = run(url, "import", str(file))
    again = run(url, "import", str(file))

    assert first.stdout.splitlines()[:2] == ["created jobs", "created dead"]
    assert "queues.jobs.copyTo" in first.stderr
    assert "SKIPMQ_REGION=elsewhere" in first.stderr
    assert again.stdout.splitlines()[:2] == ["unchanged jobs", "unchanged dead"]
    jobs, dead = shown(url, "jobs"), shown(url, "dead")
    assert jobs["visibility_timeout"] == 7
    assert jobs["redrive_policy"]["deadLetterTargetArn"] == dead["queue_arn"]
    assert dead["redrive_policy"]["deadLetterTargetArn"] == jobs["queue_arn"]


def test_name_in_fifo_declares_a_fifo_queue(url: str, tmp_path: Path) -> None:
    file = tmp_path / "queues.toml"
    file.write_text('[queues."lines.fifo"]\nDelaySeconds = 1\n')

    run(url, "import", str(file))
    again = run(url, "import", str(file))

    assert shown(url, "lines.fifo")["fifo_queue"] is True
    assert "1 unchanged" in again.stdout


def test_queue_that_differs_is_left_until_it_is_overwritten(url: str, tmp_path: Path) -> None:
    file = tmp_path / "queues.toml"
    file.write_text("[queues.jobs]\nDelaySeconds = 5\n[queues.jobs.tags]\nteam = 'shop'\n")
    run(url, "queue", "create", "jobs", "-a", "DelaySeconds=3")
    run(url, "queue", "tag", "jobs", "owner=me")

    left = run(url, "import", str(file), code=1).stdout
    assert "different jobs: DelaySeconds is 3, not 5; tags is owner=me, not team=shop" in left
    assert shown(url, "jobs")["delay_seconds"] == 3
    run(url, "import", str(file), "--overwrite", "--dry-run")
    assert shown(url, "jobs")["delay_seconds"] == 3

    assert "changed jobs" in run(url, "import", str(file), "--overwrite").stdout
    assert shown(url, "jobs")["delay_seconds"] == 5
    assert json.loads(run(url, "queue", "tag", "jobs", "--json").stdout)["tags"] == {"team": "shop"}
    assert "unchanged jobs" in run(url, "import", str(file)).stdout


def test_queue_that_cannot_be_created_is_named_with_its_value(url: str, tmp_path: Path) -> None:
    file = tmp_path / "queues.toml"
    file.write_text("[queues.jobs]\nVisibilityTimeout = 50000\n[queues.others]\n")

    lines = run(url, "import", str(file), code=1).stdout.splitlines()

    why = "Invalid value for the parameter VisibilityTimeout. It is 50000."
    assert lines[:2] == [f"failed jobs: {why}", "created others"]


def fill(sqs: Any) -> None:
    """Create queues that name each other, with a policy and tags."""
    made = {
        name: sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
        for name, attributes in {
            "shop-jobs": {"VisibilityTimeout": "7"},
            "shop-dead": {},
            "shop.fifo": {"FifoQueue": "true", "ContentBasedDeduplication": "true"},
            "other": {},
        }.items()
    }
    arns = {
        name: sqs.get_queue_attributes(QueueUrl=each, AttributeNames=["QueueArn"])["Attributes"][
            "QueueArn"
        ]
        for name, each in made.items()
    }
    policy = {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": "topic",
                "Effect": "Allow",
                "Principal": {"Service": "sns.amazonaws.com"},
                "Action": "sqs:SendMessage",
                "Resource": arns["shop-jobs"],
            }
        ],
    }
    redrive = {"deadLetterTargetArn": arns["shop-dead"], "maxReceiveCount": 4}
    changes = {"Policy": json.dumps(policy), "RedrivePolicy": json.dumps(redrive)}
    sqs.set_queue_attributes(QueueUrl=made["shop-jobs"], Attributes=changes)
    sqs.set_queue_attributes(QueueUrl=made["shop-dead"], Attributes={"KmsMasterKeyId": "alias/own"})
    sqs.tag_queue(QueueUrl=made["shop-jobs"], Tags={"team": "shop"})


def check(url: str, endpoint: str, tmp_path: Path, **variables: str) -> None:
    """Import the queues of `fill`, and check all that became of them."""
    words = ("import", "--from-sqs", "--endpoint-url", endpoint, "--region", "eu-central-1")
    words = (*words, "--prefix", "shop")
    first = run(url, *words, **variables)

    arn = "arn:aws:sqs:us-east-1:000000000000:shop-"
    jobs, fifo = shown(url, "shop-jobs"), shown(url, "shop.fifo")
    assert jobs["visibility_timeout"] == 7
    redrive = {"deadLetterTargetArn": f"{arn}dead", "maxReceiveCount": 4}
    assert jobs["redrive_policy"] == redrive
    assert jobs["policy"]["Statement"][0]["Resource"] == f"{arn}jobs"
    assert fifo["content_based_deduplication"] is True
    assert json.loads(run(url, "queue", "tag", "shop-jobs", "--json").stdout)["tags"] == {
        "team": "shop"
    }
    assert "shop-jobs: Policy: the service sns.amazonaws.com" in first.stderr
    assert "shop-dead: KmsMasterKeyId" in first.stderr
    assert sorted(json.loads(run(url, "queue", "list", "--names", "--json").stdout)["names"]) == [
        *("shop-dead", "shop-jobs", "shop.fifo")
    ]

    assert "3 unchanged" in run(url, *words, **variables).stdout
    printed = run(url, *words, "--print", **variables).stdout
    declared = tomllib.loads(printed)["queues"]
    assert declared["shop-jobs"]["RedrivePolicy"]["deadLetterTargetArn"] == "shop-dead"
    file = tmp_path / "queues.toml"
    file.write_text(printed)
    assert "3 unchanged" in run(url, "import", str(file)).stdout


def test_queues_of_another_skipmq(url: str, account: Account, tmp_path: Path) -> None:
    fill(account.client(region_name="eu-central-1"))

    # Its variables of SkipMQ name its own database.
    keys = {name: value for name, value in account.env.items() if name.startswith("AWS_")}
    check(url, account.url, tmp_path, **keys)


def test_queues_of_moto(url: str, moto: str, tmp_path: Path) -> None:
    fill(client(moto, region="eu-central-1", key="x", secret="x"))

    check(url, moto, tmp_path)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "name a file, or write --from-sqs"),
        (("a.toml", "--from-sqs"), "name a file, or write --from-sqs"),
        (("a.toml", "--prefix", "x"), "go with --from-sqs"),
        (("a.toml", "--print", "--overwrite"), "--print creates nothing"),
        (("nowhere.toml",), "there is no such file: check the path"),
        (
            ("docker-compose.yml",),
            "docker-compose.yml: YAML declares no queues: name the elasticmq",
        ),
        (("init.sh",), "a script declares no queues: name the elasticmq"),
        (("--from-sqs", "--endpoint-url", "http://u:Pl4nted@h"), "without a user and a password"),
        (("--from-sqs", "--region", "x", "--endpoint-url", "nonsense"), "endpoint is not usable"),
    ],
)
def test_bad_input_is_one_sentence(words: tuple[str, ...], why: str) -> None:
    said = run("postgresql:///nowhere", "import", *words, code=2).stderr

    assert why in said
    assert "Pl4nted" not in said
