"""Messages that are named by their references, after others have taken their numbers."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

Ask = Callable[..., dict[str, Any]]


def test_reference_with_the_number_of_another_message_names_nothing(
    queue: str, name: str, sqs: Any, ask: Ask
) -> None:
    """A server that lost committed messages assigns their numbers again."""
    other = sqs.create_queue(QueueName=f"{name}-other")["QueueUrl"]
    sqs.send_message(QueueUrl=queue, MessageBody="a")
    (message,) = ask("PeekMessages", QueueUrl=queue)["Messages"]
    number, _ = message["MessageReference"].split("-", 1)
    lost = [f"{number}-{uuid4()}"]

    seen = ask("PeekMessages", QueueUrl=queue, MessageReferences=lost)
    outcomes = [
        ask(action, QueueUrl=queue, MessageReferences=lost, **more)["Results"][0]["Outcome"]
        for action, more in (
            ("CopyMessages", {"DestinationQueueUrl": other}),
            ("MoveMessages", {"DestinationQueueUrl": other}),
            ("DeletePickedMessages", {}),
        )
    ]

    assert seen["Messages"] == []
    assert outcomes == ["missing"] * 3
    assert ask("PeekMessages", QueueUrl=queue)["Messages"][0]["MessageId"] == message["MessageId"]
