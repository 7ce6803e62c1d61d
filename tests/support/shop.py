"""Queues that a test writes to by each action."""

import json
import uuid
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from support.http import client, raw
from support.postgres import Connection
from support.sql import number

ACCOUNT = "000000000000"


@dataclass
class Shop:
    """Queues of its own on a node, and what the database has of them."""

    url: str
    owner: Connection
    fifo: bool = False
    name: str = field(default_factory=lambda: f"shop-{uuid.uuid4().hex[:12]}")
    # For the retries of a request by the node alone.
    sqs: Any = None
    queue: str = ""

    def __post_init__(self) -> None:
        self.sqs = client(self.url)
        if self.fifo:
            self.name += ".fifo"

    def create(self, name: str = "", **attributes: str) -> str:
        """Create a queue; return its URL."""
        if self.fifo:
            attributes |= {"FifoQueue": "true"}
        made = self.sqs.create_queue(QueueName=name or self.name, Attributes=attributes)
        return str(made["QueueUrl"])

    def message(self, body: str) -> dict[str, str]:
        """Return the parameters of a message."""
        fifo = {"MessageGroupId": "group", "MessageDeduplicationId": body} if self.fifo else {}
        return {"MessageBody": body, **fifo}

    def fill(self, *bodies: str) -> None:
        """Create the queue with messages."""
        self.queue = self.create()
        for body in bodies:
            self.sqs.send_message(QueueUrl=self.queue, **self.message(body))

    def received(self) -> list[str]:
        """Receive what the queue has; return the receipt handles."""
        answer = self.sqs.receive_message(
            QueueUrl=self.queue, MaxNumberOfMessages=10, VisibilityTimeout=600
        )
        return [message["ReceiptHandle"] for message in answer["Messages"]]

    def extension(self, action: str, **parameters: Any) -> dict[str, Any]:
        """Run an action beyond SQS; raise ClientError as boto3 does."""
        headers = {
            "X-Amz-Target": f"SkipMQ.{action}",
            "Content-Type": "application/x-amz-json-1.0",
        }
        answer = raw(self.url, json.dumps(parameters).encode(), headers)
        if answer.status != 200:
            metadata = {"HTTPStatusCode": answer.status}
            raise ClientError({"Error": {}, "ResponseMetadata": metadata}, action)  # type: ignore[arg-type]
        return dict(json.loads(answer.body))

    def references(self) -> list[str]:
        """Return the references of the queue's messages."""
        found = self.extension("PeekMessages", QueueUrl=self.queue)["Messages"]
        return [message["MessageReference"] for message in found]

    def count(self, condition: str = "true", name: str = "", *parameters: object) -> int:
        """Count the messages of the queue that meet a condition of SQL."""
        return number(
            self.owner,
            "select count(*) from skipmq.message m join skipmq.queue q using (queue_id)"
            f" where q.name = %s and {condition}",
            name or self.name,
            *parameters,
        )

    def has(self, condition: str, name: str = "") -> bool:
        """Tell whether the queue is there and meets a condition of SQL."""
        query = f"select count(*) from skipmq.queue q where name = %s and {condition}"
        return number(self.owner, query, name or self.name) == 1

    def schedules(self, condition: str) -> int:
        """Count the schedules of the shop that meet a condition of SQL."""
        query = f"select count(*) from skipmq.schedule where name = %s and {condition}"
        return number(self.owner, query, self.name)

    def tasks(self, condition: str) -> int:
        """Count the move tasks of the queue that meet a condition of SQL."""
        return number(
            self.owner,
            f"select count(*) from skipmq.move_task where source_arn = %s and {condition}",
            f"arn:aws:sqs:us-east-1:{ACCOUNT}:{self.name}",
        )
