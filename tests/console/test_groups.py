"""The page of a queue's groups, and why a message waits."""

import re

from support.http import NodeProcess, client
from support.visitor import Visitor


def test_group_is_paused_and_resumed_and_its_message_says_why_it_waits(node: NodeProcess) -> None:
    visitor, sqs = Visitor(node.url), client(node.url)
    limits = {"MaximumInFlight": "1", "MaximumReceiveRatePerGroup": "5"}
    sqs.create_queue(QueueName="waits", Attributes=limits)
    for body in ("first", "second"):
        sqs.send_message(QueueUrl="waits", MessageBody=body, MessageGroupId="a")

    def why() -> list[str]:
        listed = visitor.get("queues/waits/messages?state=visible").body
        reference = re.findall('/waits/messages/([^"/]+)"', listed)[0]
        page = visitor.get(f"queues/waits/messages/{reference}").body
        return re.findall(
            "<p>([^<]+)</p>", page.partition("Why it waits")[2].partition("</div>")[0]
        )

    rate = "It may wait for MaximumReceiveRatePerGroup, which is 5."
    assert why() == [rate]
    visitor.post("queues/waits/groups/pause", {"id": "a", "hours": "1"})
    assert why() == ["Group a is paused by 000000000000.", rate]
    page = visitor.get("queues/waits/groups").body
    assert "Resume group a" in page
    assert "Messages" not in sqs.receive_message(QueueUrl="waits")
    visitor.post("queues/waits/groups/pause", {"id": "a", "how": "resume"})
    assert "No group is paused" in visitor.get("queues/waits/groups").body
    assert len(sqs.receive_message(QueueUrl="waits", WaitTimeSeconds=5)["Messages"]) == 1
    assert why() == ["The queue is at its limit of 1 in flight.", rate]
    assert visitor.post("queues/waits/groups/pause", {"id": "a b"}).status == 400


def test_message_behind_one_in_flight_names_that(node: NodeProcess) -> None:
    visitor, sqs = Visitor(node.url), client(node.url)
    fifo = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    sqs.create_queue(QueueName="waits.fifo", Attributes=fifo)
    for body in ("first", "second"):
        sqs.send_message(QueueUrl="waits.fifo", MessageBody=body, MessageGroupId="a")
    (first,) = sqs.receive_message(QueueUrl="waits.fifo", MaxNumberOfMessages=1)["Messages"]

    listed = visitor.get("queues/waits.fifo/messages?state=visible").body
    reference = re.findall('/waits.fifo/messages/([^"/]+)"', listed)[0]
    page = visitor.get(f"queues/waits.fifo/messages/{reference}").body

    assert f"Group a is in flight: its first message is {first['MessageId']}." in page
