import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from support.postgres import Connection

ORDER = {
    "type": "object",
    "properties": {"item": {"type": "string"}, "quantity": {"type": "integer"}},
    "required": ["item"],
}
FITS, UNFIT = '{"item": "tea"}', '{"item": "tea", "quantity": "two"}'
REASON = "Expected `int`, got `str`, at $.quantity"


@pytest.fixture
def enforced(sqs: Any, queue: str) -> str:
    """Give the URL of a queue whose sends must fit a schema."""
    attributes = {"BodySchema": json.dumps(ORDER), "BodySchemaMode": "enforce"}
    sqs.set_queue_attributes(QueueUrl=queue, Attributes=attributes)
    return queue


def bodies(sqs: Any, queue: str) -> list[str]:
    found = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, VisibilityTimeout=60)
    return [message["Body"] for message in found.get("Messages", [])]


def test_body_that_does_not_fit_is_refused_and_another_is_stored(sqs: Any, enforced: str) -> None:
    with pytest.raises(sqs.exceptions.InvalidMessageContents) as caught:
        sqs.send_message(QueueUrl=enforced, MessageBody=UNFIT)
    sqs.send_message(QueueUrl=enforced, MessageBody=FITS)

    error = caught.value.response["Error"]
    assert error["Message"] == f"The body does not fit the queue's schema: {REASON}."
    assert bodies(sqs, enforced) == [FITS]


def test_batch_refuses_the_entries_that_do_not_fit(sqs: Any, enforced: str) -> None:
    entries = [{"Id": str(n), "MessageBody": body} for n, body in enumerate((FITS, UNFIT, "tea"))]

    answer = sqs.send_message_batch(QueueUrl=enforced, Entries=entries)

    assert [each["Id"] for each in answer["Successful"]] == ["0"]
    assert [(e["Id"], e["Code"], e["SenderFault"]) for e in answer["Failed"]] == [
        ("1", "InvalidMessageContents", True),
        ("2", "InvalidMessageContents", True),
    ]
    assert REASON in answer["Failed"][0]["Message"]


def test_schema_that_only_describes_refuses_no_body(sqs: Any, queue: str) -> None:
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"BodySchema": json.dumps(ORDER)})

    sqs.send_message(QueueUrl=queue, MessageBody=UNFIT)

    assert bodies(sqs, queue) == [UNFIT]


def test_mode_without_a_schema_refuses_no_body(sqs: Any, enforced: str) -> None:
    sqs.set_queue_attributes(QueueUrl=enforced, Attributes={"BodySchema": ""})

    sqs.send_message(QueueUrl=enforced, MessageBody=UNFIT)

    assert bodies(sqs, enforced) == [UNFIT]


def test_fifo_queue_enforces_its_schema(sqs: Any, name: str) -> None:
    attributes = {
        "FifoQueue": "true", "ContentBasedDeduplication": "true",
        "BodySchema": json.dumps(ORDER), "BodySchemaMode": "enforce",
    }  # fmt: skip
    queue = sqs.create_queue(QueueName=f"{name}.fifo", Attributes=attributes)["QueueUrl"]

    with pytest.raises(sqs.exceptions.InvalidMessageContents):
        sqs.send_message(QueueUrl=queue, MessageBody=UNFIT, MessageGroupId="a")
    sqs.send_message(QueueUrl=queue, MessageBody=FITS, MessageGroupId="a")

    assert bodies(sqs, queue) == [FITS]


def test_send_by_sql_is_not_held_to_the_schema(
    sqs: Any, owner: Connection, enforced: str, name: str
) -> None:
    owner.execute("select skipmq.send_message(%s, %s)", (name, UNFIT))

    assert bodies(sqs, enforced) == [UNFIT]


def test_schema_is_returned_as_it_was_set(sqs: Any, queue: str) -> None:
    text = json.dumps(ORDER, indent=2)
    asked = ["All", "BodySchema", "BodySchemaMode"]
    before = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=asked)["Attributes"]

    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"BodySchema": text})
    after = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=asked)["Attributes"]

    assert (before.get("BodySchema"), before["BodySchemaMode"]) == (None, "describe")
    assert (after["BodySchema"], after["BodySchemaMode"]) == (text, "describe")


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("{", "Input data was truncated, at $"),
        ('{"type": "object", "properties": {"a": {"not": {}}}}',
         "Unsupported keyword `not`, at $.properties.a"),
        (json.dumps(ORDER) + " " * 16_384, "A schema can have at most 16384 bytes"),
    ],
)  # fmt: skip
def test_schema_that_cannot_be_used_is_refused(
    sqs: Any, queue: str, schema: str, reason: str
) -> None:
    with pytest.raises(ClientError) as caught:
        sqs.set_queue_attributes(QueueUrl=queue, Attributes={"BodySchema": schema})

    error = caught.value.response["Error"]
    assert error["Code"] == "InvalidAttributeValue"
    assert error["Message"] == f"Invalid value for the parameter BodySchema. Reason: {reason}."
