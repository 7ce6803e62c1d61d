"""What GetMessageTimeline says of a message: in its queue, settled, and in other queues."""

import json
from typing import Any
from uuid import uuid4

import pytest

from support.http import NodeProcess, eventually, extension

US = 1_000_000


class Timelines:
    """A node that is asked for timelines of messages of a queue."""

    def __init__(self, url: str) -> None:
        self._url = url

    def of(self, queue: str, message: str, status: int = 200, **more: str) -> dict[str, Any]:
        return extension(
            self._url, "GetMessageTimeline", status, QueueUrl=queue, MessageId=message, **more
        )


@pytest.fixture
def timelines(broker: NodeProcess) -> Timelines:
    return Timelines(broker.url)


def stories(found: dict[str, Any]) -> list[str]:
    return [each["Event"] for each in found["Events"]]


def test_message_that_waits_needs_no_history(sqs: Any, queue: str, timelines: Timelines) -> None:
    sent = sqs.send_message(QueueUrl=queue, MessageBody="x")["MessageId"]
    sqs.receive_message(QueueUrl=queue, VisibilityTimeout=100)

    found = timelines.of(queue, sent.upper())

    assert (found["State"], stories(found)) == (
        "in-flight",
        ["sent", "first-received", "in-flight"],
    )
    assert 90 * US < found["Events"][-1]["At"] - found["Clock"] <= 100 * US
    assert found["Events"][-1]["Receives"] == 1
    assert "HistorySearchedFrom" not in found


def test_deleted_message_says_when_and_by_which_node(
    sqs: Any, queue: str, timelines: Timelines
) -> None:
    sent = sqs.send_message(QueueUrl=queue, MessageBody="x")["MessageId"]
    (message,) = sqs.receive_message(QueueUrl=queue)["Messages"]
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])

    found = timelines.of(queue, sent)

    assert (found["State"], stories(found)) == ("settled", ["sent", "first-received", "deleted"])
    times = [each["At"] for each in found["Events"]]
    assert times == sorted(times)
    assert found["Events"][-1]["Program"].startswith("skipmq ")
    assert "NextToken" not in found


@pytest.fixture
def dead_lettered(sqs: Any, queue: str, name: str) -> tuple[str, str]:
    """Give the URL of a dead-letter queue, and the id of the message that is in it."""
    dead = sqs.create_queue(QueueName=f"{name}-dead")["QueueUrl"]
    policy = {
        "deadLetterTargetArn": f"arn:aws:sqs:us-east-1:000000000000:{name}-dead",
        "maxReceiveCount": 1,
    }
    attributes = {"RedrivePolicy": json.dumps(policy)}
    sqs.set_queue_attributes(QueueUrl=queue, Attributes=attributes)
    sent = sqs.send_message(QueueUrl=queue, MessageBody="x")["MessageId"]
    once = {"VisibilityTimeout": 0}
    eventually(lambda: not sqs.receive_message(QueueUrl=queue, **once).get("Messages"))
    return str(dead), str(sent)


def test_dead_letter_is_followed_from_either_queue(
    sqs: Any, queue: str, dead_lettered: tuple[str, str], timelines: Timelines
) -> None:
    dead, sent = dead_lettered
    source, target = (url.rpartition("/")[2] for url in (queue, dead))
    lived = ["sent", "first-received", "dead-lettered"]

    for url in (queue, dead):
        found = timelines.of(url, sent)
        assert (found["State"], stories(found)) == ("visible", [*lived, "visible"])
        moved = found["Events"][2]
        assert (moved["QueueName"], moved["DestinationQueueName"]) == (source, target)
        assert found["Events"][-1]["QueueName"] == target
    (message,) = sqs.receive_message(QueueUrl=dead)["Messages"]
    sqs.delete_message(QueueUrl=dead, ReceiptHandle=message["ReceiptHandle"])

    found = timelines.of(queue, sent)

    assert (found["State"], stories(found)) == ("settled", [*lived, "deleted"])
    assert [each.get("Receives") for each in found["Events"]] == [None, None, 1, 2]


def test_what_is_nowhere_says_how_far_was_searched(queue: str, timelines: Timelines) -> None:
    found = timelines.of(queue, str(uuid4()))

    assert (found["State"], found["Events"], found["QueueSearched"]) == ("not-found", [], True)
    assert found["HistorySearchedFrom"] < found["Clock"]


@pytest.mark.parametrize(
    "wrong",
    [{"MessageId": "x"}, {"MessageReference": "1;"}, {"NextToken": "MjAyNg=="}, {"NextToken": "!"}],
)
def test_timeline_refuses_what_it_does_not_know(
    queue: str, timelines: Timelines, wrong: dict[str, str]
) -> None:
    message, more = wrong.get("MessageId", str(uuid4())), {**wrong}
    more.pop("MessageId", None)

    found = timelines.of(queue, message, 400, **more)

    assert "InvalidParameterValue" in found["__type"]
