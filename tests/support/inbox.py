"""Queues that are subscribed to topics."""

from itertools import count
from typing import Any

ACCOUNT = "000000000000"
_number = count(1)


class Inbox:
    """A queue, by its URL and ARN."""

    def __init__(self, sqs: Any, suffix: str = "", **attributes: str) -> None:
        self._sqs, name = sqs, f"inbox-{next(_number)}{suffix}"
        if suffix:
            attributes["FifoQueue"] = "true"
        self.url = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
        self.arn = f"arn:aws:sqs:us-east-1:{ACCOUNT}:{name}"

    def messages(self) -> list[dict[str, Any]]:
        found = self._sqs.receive_message(
            QueueUrl=self.url,
            MaxNumberOfMessages=10,
            MessageAttributeNames=["All"],
            MessageSystemAttributeNames=["All"],
        )
        return list(found.get("Messages", []))

    def bodies(self) -> list[str]:
        return [each["Body"] for each in self.messages()]


def subscribe(sns: Any, topic: str, queue: Inbox, **attributes: str) -> str:
    return str(
        sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=queue.arn, Attributes=attributes)[
            "SubscriptionArn"
        ]
    )


RAW = {"RawMessageDelivery": "true"}
