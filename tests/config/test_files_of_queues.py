"""Files of queues where they are given: to a node, a test server, pytest; next to ElasticMQ."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench import machine, peers
from skipmq.testing import Server, TestingError
from support import forks
from support.http import SKIPMQ, NodeProcess, client, environment, eventually, extension
from support.postgres import Databases, as_node
from support.programs import not_here

CONF = """include classpath("application.conf")
aws { region = here, accountId = "123456789012" }
rest-sqs { bind-hostname = "0.0.0.0" }
queues {
  jobs { defaultVisibilityTimeout = 7 seconds
         deadLettersQueue { name = dead, maxReceiveCount = 1 }
         tags { team = shop } }
  dead { }
  lines { fifo = true, contentBasedDeduplication = true }
}
"""
# What both brokers say of a queue.
COMMON = (
    *("VisibilityTimeout", "DelaySeconds", "ReceiveMessageWaitTimeSeconds", "QueueArn"),
    *("RedrivePolicy", "FifoQueue", "ContentBasedDeduplication"),
)


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    file = tmp_path / "elasticmq.conf"
    file.write_text(CONF)
    return file


def described(sqs: Any, name: str) -> dict[str, Any]:
    """Return what a broker says of a queue, with its policy decoded."""
    url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    kept = {key: found[key] for key in COMMON if key in found}
    if "RedrivePolicy" in kept:
        kept["RedrivePolicy"] = json.loads(kept["RedrivePolicy"])
    return kept | {"tags": sqs.list_queue_tags(QueueUrl=url).get("Tags", {})}


JOBS = {
    "VisibilityTimeout": "7",
    "DelaySeconds": "0",
    "ReceiveMessageWaitTimeSeconds": "0",
    "QueueArn": "arn:aws:sqs:here:123456789012:jobs",
    "RedrivePolicy": {
        "deadLetterTargetArn": "arn:aws:sqs:here:123456789012:dead",
        "maxReceiveCount": 1,
    },
    "tags": {"team": "shop"},
}


def test_node_has_the_queues_region_and_account_of_a_conf(
    embedded_databases: Databases, conf: Path
) -> None:
    url = as_node(embedded_databases.migrated())
    with NodeProcess("--queues", str(conf), database_url=url, workers=1) as node:
        sqs = client(node.ready().url, region="elsewhere")
        assert described(sqs, "jobs") == JOBS
        assert described(sqs, "lines.fifo")["ContentBasedDeduplication"] == "true"
        eventually(lambda: "SKIPMQ_HOST" in node.log)
        sqs.set_queue_attributes(
            QueueUrl=sqs.get_queue_url(QueueName="jobs")["QueueUrl"],
            Attributes={"VisibilityTimeout": "8"},
        )
    settings = {"database_url": url, "workers": 1, "queues": conf, "region": "there"}
    with NodeProcess(**settings) as node:
        sqs = client(node.ready().url)
        # A variable overrides the file, and so the queues of that region are others.
        assert described(sqs, "jobs")["QueueArn"] == "arn:aws:sqs:there:123456789012:jobs"
    with NodeProcess(**{**settings, "region": "here"}) as node:
        node.ready()
        why = "an existing queue differs from its declaration"
        eventually(lambda: why in node.log, why=node.log)
        assert described(client(node.url), "jobs")["VisibilityTimeout"] == "8"


def test_queues_of_a_toml_file_alone(embedded_databases: Databases, tmp_path: Path) -> None:
    file = tmp_path / "queues.toml"
    file.write_text(
        '[queues.jobs]\nRedrivePolicy = { deadLetterTargetArn = "dead", maxReceiveCount = 1 }\n'
        'RedriveAllowPolicy = { redrivePermission = "denyAll" }\n'
        'BodySchema = { type = "object", properties = { a = { type = "string" } } }\n'
        "[queues.jobs.tags]\nteam = 'shop'\n[queues.dead]\n"
        "[queues.dead.schedules.count]\nwhen = 'every hour'\nbody = { count = true }\n"
        '[queues.jobs.topics.news]\nFilterPolicyScope = "MessageBody"\n'
        'FilterPolicy = { a = { b = ["x"] } }\n'
    )
    url = as_node(embedded_databases.migrated())
    with NodeProcess(queues=file, database_url=url, workers=1) as node:
        sqs = client(node.ready().url)
        found = described(sqs, "jobs")
        scheduled = extension(node.url, "DescribeSchedule", Name="count")["Schedule"]
        sns = client(node.url, "query", service="sns")
        (subscription,) = sns.list_subscriptions()["Subscriptions"]
        of_topic = sns.get_subscription_attributes(SubscriptionArn=subscription["SubscriptionArn"])
        schema = sqs.get_queue_attributes(
            QueueUrl=sqs.get_queue_url(QueueName="jobs")["QueueUrl"], AttributeNames=["BodySchema"]
        )["Attributes"]["BodySchema"]
    with NodeProcess(queues=file, database_url=url, workers=1) as node:
        node.ready()
        assert "an existing queue differs from its declaration" not in node.log

    arn = "arn:aws:sqs:us-east-1:000000000000:dead"
    assert found["RedrivePolicy"] == {"deadLetterTargetArn": arn, "maxReceiveCount": 1}
    assert found["tags"] == {"team": "shop"}
    assert subscription["Endpoint"] == "arn:aws:sqs:us-east-1:000000000000:jobs"
    assert json.loads(of_topic["Attributes"]["FilterPolicy"]) == {"a": {"b": ["x"]}}
    assert (scheduled["QueueName"], scheduled["MessageBody"]) == ("dead", '{"count": true}')
    assert json.loads(schema) == {"type": "object", "properties": {"a": {"type": "string"}}}


def test_file_of_queues_is_named_relative_to_the_file_of_settings(
    tmp_path: Path, conf: Path
) -> None:
    settings = tmp_path / "skipmq.toml"
    settings.write_text(f'queues = "{conf.name}"\nregion = "there"\n')
    with forks.Forked(
        [*SKIPMQ, "--config", str(settings), "config", "--json"],
        env=environment({}),
        cwd=tmp_path.parent,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        found = json.load(process.stdout)

    assert found["queues"] == {"value": ["jobs", "dead", "lines.fifo"], "source": str(conf)}
    assert found["region"] == {"value": "there", "source": str(settings)}
    assert found["account"] == {"value": "123456789012", "source": str(conf)}


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("a.toml", "port = 1\n[queues.a]\n", "port: a file of queues has [queues.NAME] alone"),
        ("a.toml", "queues = 3", "write a table for each queue"),
        ("a.toml", "[queues.a]\ntags = 3", "write tags as a table: [queues.a.tags]"),
        ("a.toml", "[queues.a.schedules.b]\nwhen = 'every hour'", "missing required field `body`"),
        ("a.toml", "[queues", "cannot be read as TOML"),
        ("a.conf", "queues { a { delay = soon } }", "a.conf: queues.a.delay: write 10 seconds"),
        ("a.conf", "aws.accountId = 12", "account='12'"),
    ],
)
def test_file_with_an_error_is_one_sentence(tmp_path: Path, name: str, text: str, why: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    done = forks.run(
        [*SKIPMQ, "serve", "--ephemeral", "--queues", str(file)], environment({"port": 0})
    )

    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"skipmq: {file}")
    assert why in line


def test_test_server_takes_a_conf(conf: Path) -> None:
    with Server(queues=conf) as server:
        assert described(server.client(), "jobs") == JOBS
        account = server.new_account(str(conf))
        found = described(account.client(), "jobs")
        target = f"arn:aws:sqs:here:{account.number}:dead"
        assert found["RedrivePolicy"]["deadLetterTargetArn"] == target
        account.client().create_queue(QueueName="other")
        account.reset()
        urls = account.client().list_queues()["QueueUrls"]
        assert {url.rpartition("/")[2] for url in urls} == {"jobs", "dead", "lines.fifo"}


def test_test_server_says_what_is_wrong_in_a_conf(conf: Path) -> None:
    conf.write_text("queues {\n jobs { delay = soon }\n}")

    with pytest.raises(TestingError, match=r"elasticmq\.conf: queues\.jobs\.delay"):
        Server(queues=conf).start()


@pytest.mark.slow
def test_pytest_finds_the_queues_of_a_conf(conf: Path) -> None:
    (conf.parent / "pytest.ini").write_text("[pytest]\nskipmq_queues = elasticmq.conf\n")
    (conf.parent / "test_jobs.py").write_text(
        "def test_jobs(skipmq):\n"
        "    sqs = skipmq.client()\n"
        '    queue = sqs.get_queue_url(QueueName="lines.fifo")["QueueUrl"]\n'
        '    names = ["QueueArn"]\n'
        "    found = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=names)\n"
        '    arn = f"arn:aws:sqs:here:{skipmq.number}:lines.fifo"\n'
        '    assert found["Attributes"] == {"QueueArn": arn}\n'
    )
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}  # noqa: TID251
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q"],
        cwd=conf.parent,
        env=kept,
        capture_output=True,
        text=True,
        check=False,
    )

    assert "1 passed" in done.stdout, done.stdout


@pytest.mark.slow
def test_conf_makes_the_queues_that_elasticmq_makes_of_it(tmp_path: Path, conf: Path) -> None:
    try:
        machine.elasticmq_jars()
    except machine.Unavailable as error:
        not_here(str(error))
    own = tmp_path / "with-port.conf"
    own.write_text(
        f'include "{conf.name}"\nnode-address.port = ${{PORT}}\nrest-sqs.bind-port = ${{PORT}}\n'
    )
    with peers.elasticmq(tmp_path, conf=own) as other, Server(queues=conf) as server:
        theirs = client(other.url, region="here", key="x", secret="x", tries=5)
        ours = client(server.url, region="here", key="x", secret="x")
        for name in ("jobs", "dead", "lines.fifo"):
            assert described(ours, name) == described(theirs, name)
