"""The AWS CLI, a process for each command.

What a command did is seen by boto3.
"""

import json
import subprocess
from collections.abc import Mapping
from typing import Any

import pytest

from support import forks, programs
from support.http import client

AWS = programs.INSTALLED / "awscli" / "bin" / "aws"


class Shell:
    """Runs commands of the CLI on queues of an endpoint."""

    def __init__(self, endpoint: str, key: Mapping[str, str] | None = None) -> None:
        self._key = key
        self._words = [str(AWS), "--endpoint-url", endpoint, "--output", "json", "sqs"]

    def run(self, command: str, **options: Any) -> subprocess.CompletedProcess[str]:
        words = [*self._words, command]
        for name, value in options.items():
            text = value if isinstance(value, str) else json.dumps(value)
            words += [f"--{name.replace('_', '-')}", text]
        return forks.run(words, programs.environment(self._key))

    def __call__(self, command: str, **options: Any) -> dict[str, Any]:
        """Return the answer of a command that succeeds."""
        done = self.run(command, **options)
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout or "{}")
        return answer


@pytest.fixture
def aws(endpoint: str) -> Shell:
    assert AWS.exists(), "run `make clients`, which installs it"
    return Shell(endpoint)


def test_aws_cli_sends_receives_hides_and_deletes(endpoint: str, aws: Shell) -> None:
    sqs = client(endpoint)
    queue = aws(
        "create-queue",
        queue_name="cli-shop",
        attributes={"VisibilityTimeout": "45"},
        tags={"team": "tea"},
    )["QueueUrl"]
    title = {"DataType": "String", "StringValue": "Grüße ☕"}

    sent = aws(
        "send-message",
        queue_url=queue,
        message_body="<first> & ☕",
        message_attributes={"Title": title},
    )
    receive = {"queue_url": queue, "wait_time_seconds": 20, "message_attribute_names": "All"}
    [first] = aws("receive-message", **receive)["Messages"]
    handle = first["ReceiptHandle"]
    aws("change-message-visibility", queue_url=queue, receipt_handle=handle, visibility_timeout=0)
    [second] = aws("receive-message", **receive, message_system_attribute_names="All")["Messages"]
    aws("delete-message", queue_url=queue, receipt_handle=second["ReceiptHandle"])

    assert first["MessageId"] == second["MessageId"] == sent["MessageId"]
    assert second["Body"] == "<first> & ☕"
    assert second["MessageAttributes"] == {"Title": title}
    assert second["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    assert second["Attributes"]["ApproximateReceiveCount"] == "2"
    found = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
    assert found["VisibilityTimeout"] == "45"
    assert found["ApproximateNumberOfMessages"] == "0"
    assert found["ApproximateNumberOfMessagesNotVisible"] == "0"
    assert sqs.list_queue_tags(QueueUrl=queue)["Tags"] == {"team": "tea"}


def test_aws_cli_sends_a_batch_to_a_fifo_in_order(endpoint: str, aws: Shell) -> None:
    sqs = client(endpoint)
    attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    queue = sqs.create_queue(QueueName="cli.fifo", Attributes=attributes)["QueueUrl"]
    # The third is the first once more.
    bodies = ["one", "two", "one"]
    entries = [
        {"Id": str(n), "MessageBody": body, "MessageGroupId": "a"} for n, body in enumerate(bodies)
    ]

    sent = aws("send-message-batch", queue_url=queue, entries=entries)["Successful"]
    answer = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)

    assert sent[2]["MessageId"] == sent[0]["MessageId"]
    assert [message["Body"] for message in answer["Messages"]] == ["one", "two"]


def test_aws_cli_lists_page_by_page_and_tells_what_is_absent(endpoint: str, aws: Shell) -> None:
    names = [f"cli-page-{n}" for n in range(3)]
    sqs = client(endpoint)
    for name in names:
        sqs.create_queue(QueueName=name)

    urls = aws("list-queues", queue_name_prefix="cli-page-", page_size=1)["QueueUrls"]
    sqs.delete_queue(QueueUrl=urls[0])
    absent = aws.run("get-queue-url", queue_name=names[0])

    assert [url.rsplit("/", 1)[1] for url in urls] == names
    assert absent.returncode != 0
    assert "(AWS.SimpleQueueService.NonExistentQueue)" in absent.stderr


def test_aws_cli_signs_as_the_node_verifies(signed_endpoint: Any) -> None:
    url, key = signed_endpoint
    aws, wrong = Shell(url, key), Shell(url, key | {"AWS_SECRET_ACCESS_KEY": "wrong"})

    queue = aws("create-queue", queue_name="cli-signed", tags={"team": "grün"})["QueueUrl"]

    assert queue.endswith("/cli-signed")
    assert "SignatureDoesNotMatch" in wrong.run("list-queues").stderr
