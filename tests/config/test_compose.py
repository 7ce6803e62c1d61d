"""Compose files for ElasticMQ and LocalStack, run unchanged but for the image, without containers.

A node gets the command, the variables and the files that its container would get.
"""

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml

from support import forks, pages
from support.http import ROOT, SKIPMQ, NodeProcess, environment, free_port, raw
from support.imports import DOCUMENTED

DOCKERFILE = (ROOT / "deploy" / "container" / "Dockerfile").read_text()
COME_FROM = pages.FOLDER / "come-from"
# What compose takes from its environment, or from what the file says instead.
VARIABLE = re.compile(r"\$\{\w+(?::?-([^}]*))?\}")
IMAGES = {"elasticmq": "softwaremill/elasticmq-native", "localstack": "localstack/localstack"}


def service(page: str, file: str) -> dict[str, Any]:
    """Return the only service of a compose file on a page, in an environment without variables."""
    (block,) = (b for b in pages.read(COME_FROM / page).blocks if b.file == file)
    services = yaml.safe_load(VARIABLE.sub(lambda m: m[1] or "", block.text))["services"]
    (found,) = services.values()
    assert isinstance(found, dict)
    return found


def image(target: str) -> tuple[dict[str, str], list[str]]:
    """Return the variables and the command of a target of the Dockerfile."""
    text = DOCKERFILE.replace("\\\n", " ")
    stages = re.findall(r"^FROM (\S+) AS (\S+)$(.*?)(?=^FROM |\Z)", text, re.MULTILINE | re.DOTALL)
    ((parent, content),) = [(p, c) for p, name, c in stages if name == target]
    inherited = any(name == parent for _, name, _ in stages)
    variables, command = image(parent) if inherited else ({}, [])
    for line in re.findall(r"^ENV (.*)$", content, re.MULTILINE):
        variables |= dict(word.split("=", 1) for word in shlex.split(line))
    for line in re.findall(r"^CMD (\[.*\])$", content, re.MULTILINE):
        command = json.loads(line)
    return variables, command


@dataclass
class Container:
    """What runs in a container of a service: its files are those of a folder of this machine."""

    service: dict[str, Any]
    folder: Path

    def __post_init__(self) -> None:
        target = self.service["image"].removeprefix("skipmq-")
        image_variables, self.command = image(target)
        given = dict(each.split("=", 1) for each in self.service.get("environment", []))
        empty = self.folder / "empty.conf"
        empty.touch()
        files = {"/opt/elasticmq.conf": str(empty), "/var/lib/skipmq": str(self.folder / "data")}
        for mount in self.service.get("volumes", []):
            source, target = mount.split(":")
            files[target] = str(self.folder / source)
        own = {k: v for k, v in image_variables.items() if k.startswith("SKIPMQ_")}
        self.variables = {k: files.get(v, v) for k, v in (own | given).items()}

    def published(self) -> set[int]:
        """Return the ports inside the container that the service publishes, but for ranges."""
        ports = [str(each).rpartition(":")[2] for each in self.service["ports"]]
        return {int(port) for port in ports if port.isdecimal()}

    def port(self) -> int:
        """Return the port that the node in it listens on."""
        done = forks.run([*SKIPMQ, "config", "--json"], environment({}) | self.variables)
        port: int = json.loads(done.stdout)["port"]["value"]
        return port

    @contextmanager
    def run(self) -> Iterator[NodeProcess]:
        """Run it, published on free ports."""
        serve, *options = self.command
        assert serve == "serve"
        port = free_port()
        variables = self.variables | {"SKIPMQ_METRICS_PORT": str(free_port())}
        options += ["--port", str(port)]
        with NodeProcess(*options, port=port, variables=variables) as node:
            yield node.ready()


@pytest.mark.parametrize("broker", IMAGES)
def test_only_the_image_differs_from_the_documented_service(broker: str) -> None:
    before, after = (service(f"{broker}.md", file) for file in ("before.yml", "compose.yml"))

    assert before.pop("image") == IMAGES[broker]
    assert after.pop("image") == f"skipmq-{broker}"
    assert before == after


def test_compose_and_client_of_elasticmq(tmp_path: Path) -> None:
    (tmp_path / "custom.conf").write_text(DOCUMENTED)
    container = Container(service("elasticmq.md", "compose.yml"), tmp_path)

    assert container.published() == {container.port(), 9325}
    with container.run() as node:
        # As in ElasticMQ's README.
        sqs = boto3.resource(
            "sqs",
            endpoint_url=f"http://localhost:{node.port}",
            region_name="elasticmq",
            aws_secret_access_key="x",
            aws_access_key_id="x",
            use_ssl=False,
        )
        queue = sqs.get_queue_by_name(QueueName="queue1")
        assert queue.url.startswith(f"http://localhost:{node.port}/")
        assert queue.attributes["QueueArn"] == "arn:aws:sqs:elasticmq:000000000000:queue1"
        assert queue.attributes["VisibilityTimeout"] == "10"
        queue.send_message(MessageBody="tea", DelaySeconds=0)
        (message,) = queue.receive_messages(WaitTimeSeconds=10)
        assert message.body == "tea"
        message.delete()
        neighbour = asked(node, "elasticmq:9324", "queue1")
        assert neighbour == "http://elasticmq:9324/000000000000/queue1"


def test_service_of_elasticmq_without_a_file(tmp_path: Path) -> None:
    found = service("elasticmq.md", "compose.yml")
    del found["volumes"]
    container = Container(found, tmp_path)

    assert container.port() in container.published()
    with container.run() as node:
        sqs = boto3.client(
            "sqs",
            endpoint_url=f"http://localhost:{node.port}",
            region_name="elasticmq",
            aws_secret_access_key="x",
            aws_access_key_id="x",
        )
        assert "QueueUrls" not in sqs.list_queues()
        url = sqs.create_queue(QueueName="own")["QueueUrl"]
        found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]
        assert found == {"QueueArn": "arn:aws:sqs:elasticmq:000000000000:own"}


def test_compose_and_client_of_localstack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    container = Container(service("localstack.md", "compose.yml"), tmp_path)

    assert container.published() == {container.port()} == {4566}
    with container.run() as node:
        # As in LocalStack's documentation: the SDK reads where it is.
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://localhost:{node.port}")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        sqs = boto3.client("sqs")
        queue = sqs.create_queue(QueueName="localstack-queue")["QueueUrl"]
        sqs.send_message(QueueUrl=queue, MessageBody="Hello World")
        received = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=10)
        assert [each["Body"] for each in received["Messages"]] == ["Hello World"]
        for host in (
            "localstack:4566",
            "localhost.localstack.cloud:4566",
            "sqs.us-east-1.localhost.localstack.cloud:4566",
        ):
            url = asked(node, host, "localstack-queue")
            assert url == f"http://{host}/000000000000/localstack-queue"


def asked(node: NodeProcess, host: str, name: str) -> str:
    """Return the URL of a queue that a client gets who calls the node by another name."""
    answer = raw(
        f"{node.url}/",
        json.dumps({"QueueName": name}).encode(),
        {
            "Host": host,
            "Content-Type": "application/x-amz-json-1.0",
            "X-Amz-Target": "AmazonSQS.GetQueueUrl",
        },
    )
    assert answer.status == 200, answer.body
    url: str = json.loads(answer.body)["QueueUrl"]
    return url
