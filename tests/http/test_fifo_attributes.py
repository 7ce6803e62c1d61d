"""The attributes of FIFO queues. Source: SQS API Reference, SetQueueAttributes."""

from typing import Any

import pytest
from botocore.exceptions import ClientError


@pytest.fixture
def fifo(sqs: Any, name: str) -> str:
    """Give the URL of a new FIFO queue."""
    attributes = {"FifoQueue": "true"}
    return str(sqs.create_queue(QueueName=f"{name}.fifo", Attributes=attributes)["QueueUrl"])


def refused(call: Any, **parameters: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        call(**parameters)
    return (caught.value.response["Error"]["Code"], caught.value.response["Error"]["Message"])


def test_fifo_queue_has_its_attributes(sqs: Any, name: str) -> None:
    url = sqs.create_queue(QueueName=f"{name}.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]

    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]

    own = {
        "FifoQueue": "true",
        "ContentBasedDeduplication": "false",
        "DeduplicationScope": "queue",
        "FifoThroughputLimit": "perQueue",
    }
    assert {key: found[key] for key in own} == own
    assert found["QueueArn"].endswith(".fifo")
    again = sqs.create_queue(QueueName=f"{name}.fifo", Attributes={"FifoQueue": "true"})
    assert again["QueueUrl"] == url


@pytest.mark.parametrize(
    ("suffix", "attributes", "code", "text"),
    [
        ("", {"FifoQueue": "true"}, "InvalidParameterValue", "must end with .fifo suffix"),
        (".fifo", {}, "InvalidParameterValue", "Can only include alphanumeric characters"),
        (".fifo", {"FifoQueue": "false"}, "InvalidAttributeName", "Unknown Attribute FifoQueue."),
        ("", {"FifoQueue": "false"}, "InvalidAttributeName", "Unknown Attribute FifoQueue."),
        ("", {"FifoQueue": "False"}, "InvalidAttributeName", "Unknown Attribute FifoQueue."),
        (".fifo", {"FifoQueue": "yes"}, "InvalidAttributeValue", "FifoQueue"),
        ("", {"DeduplicationScope": "queue"}, "InvalidAttributeName", "only when FifoQueue"),
        (
            ".fifo",
            {"FifoQueue": "true", "DeduplicationScope": "group"},
            "InvalidAttributeValue",
            "DeduplicationScope",
        ),
        (
            ".fifo",
            {"FifoQueue": "true", "FifoThroughputLimit": "perMessageGroupId"},
            "InvalidAttributeValue",
            "only when the value for DeduplicationScope is messageGroup",
        ),
    ],
)
def test_fifo_attributes_are_checked(
    sqs: Any, name: str, suffix: str, attributes: dict[str, str], code: str, text: str
) -> None:
    found = refused(sqs.create_queue, QueueName=name + suffix, Attributes=attributes)

    assert found[0] == code
    assert text in found[1]


def test_high_throughput_needs_its_scope_and_keeps_it(sqs: Any, fifo: str) -> None:
    def change(**attributes: str) -> None:
        sqs.set_queue_attributes(QueueUrl=fifo, Attributes=attributes)

    wrong = "only when the value for DeduplicationScope is messageGroup"
    assert wrong in refused(change, FifoThroughputLimit="perMessageGroupId")[1]
    change(DeduplicationScope="messageGroup", FifoThroughputLimit="perMessageGroupId")
    assert wrong in refused(change, DeduplicationScope="queue")[1]
    change(DeduplicationScope="queue", FifoThroughputLimit="perQueue")


def test_type_of_a_queue_cannot_be_changed(sqs: Any, fifo: str, queue: str) -> None:
    text = (
        "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported."
    )
    wrong = ("InvalidAttributeValue", text)
    unknown = ("InvalidAttributeName", "Unknown Attribute FifoQueue.")

    change = sqs.set_queue_attributes
    for value in ("true", "false", "True"):
        assert refused(change, QueueUrl=queue, Attributes={"FifoQueue": value}) == unknown
    for value in ("false", "False"):
        assert refused(change, QueueUrl=fifo, Attributes={"FifoQueue": value}) == wrong
    for value in ("true", "TRUE"):
        change(QueueUrl=fifo, Attributes={"FifoQueue": value})


def test_boolean_attributes_are_taken_in_any_case_and_shown_in_lower(sqs: Any, name: str) -> None:
    given = {"FifoQueue": "True", "ContentBasedDeduplication": "TRUE"}
    url = sqs.create_queue(QueueName=f"{name}.fifo", Attributes=given)["QueueUrl"]
    # It has these attributes already.
    sqs.create_queue(
        QueueName=f"{name}.fifo",
        Attributes={"FifoQueue": "true", "ContentBasedDeduplication": "tRue"},
    )
    sqs.set_queue_attributes(
        QueueUrl=url, Attributes={"ContentBasedDeduplication": "False", "FifoQueue": "TRUE"}
    )

    shown = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=list(given))["Attributes"]
    assert shown == {"FifoQueue": "true", "ContentBasedDeduplication": "false"}
