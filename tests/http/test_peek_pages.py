"""Pages of peeked messages that are large."""

import json
from typing import Any

import pytest

from support.http import NodeProcess, raw


@pytest.mark.parametrize("kind", ["standard", pytest.param("fifo", marks=pytest.mark.slow)])
def test_pages_of_large_messages_end_by_their_bytes(
    broker: NodeProcess, sqs: Any, queue: str, name: str, kind: str
) -> None:
    """Peek at 16 MiB, half of which is twice as long in JSON."""
    group = {}
    if kind == "fifo":
        attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
        queue = sqs.create_queue(QueueName=f"{name}.fifo", Attributes=attributes)["QueueUrl"]
        group = {"MessageGroupId": "g"}
    sent = [f"{n:x}" + ("x" if n < 8 else "\n") * 1_000_000 for n in range(16)]
    for body in sent:
        sqs.send_message(QueueUrl=queue, MessageBody=body, **group)
    sizes: list[int] = []
    seen: list[str] = []
    token: dict[str, str] = {}
    while not sizes or token:
        headers = {"X-Amz-Target": "SkipMQ.PeekMessages", "Content-Type": "application/json"}
        asked = json.dumps({"QueueUrl": queue, "MaxResults": 100, **token}).encode()
        answer = raw(broker.url, asked, headers)
        page = json.loads(answer.body)
        sizes.append(len(answer.body))
        seen += [message["Body"] for message in page["Messages"]]
        token = {"NextToken": page["NextToken"]} if "NextToken" in page else {}

    assert max(sizes) <= 6 * 1_048_576 + 200
    assert sorted(seen) == sorted(sent)
