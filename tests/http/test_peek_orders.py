"""Peeked messages in another order, and those that are named."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

Ask = Callable[..., dict[str, Any]]


def test_messages_are_ranked_in_pages(sqs: Any, queue: str, ask: Ask) -> None:
    for size in (3, 9, 1, 7, 5):
        sqs.send_message(QueueUrl=queue, MessageBody="x" * size)
    sizes: list[int] = []
    token: dict[str, str] = {}
    while not sizes or token:
        page = ask("PeekMessages", QueueUrl=queue, Order="size", MaxResults=2, **token)
        assert page["Ranked"] == 5
        sizes += [len(each["Body"]) for each in page["Messages"]]
        token = {"NextToken": page["NextToken"]} if "NextToken" in page else {}

    assert sizes == [9, 7, 5, 3, 1]


def test_named_messages_are_found_wherever_they_are(sqs: Any, queue: str, ask: Ask) -> None:
    for n in range(3):
        sqs.send_message(QueueUrl=queue, MessageBody=str(n))
    first, second, third = ask("PeekMessages", QueueUrl=queue)["Messages"]
    received = sqs.receive_message(QueueUrl=queue)["Messages"][0]
    names = [each["MessageReference"] for each in (third, first, second)]

    found = ask(
        "PeekMessages", QueueUrl=queue, MessageReferences=[*names, f"999999999999-{uuid4()}"]
    )

    assert [each["MessageReference"] for each in found["Messages"]] == names
    states = {each["MessageId"]: each["State"] for each in found["Messages"]}
    assert states.pop(received["MessageId"]) == "in-flight"
    assert set(states.values()) == {"visible"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"Order": "newest"},
        {"Order": "size", "NextToken": "MS8x"},
        {"MessageReferences": []},
        {"MessageReferences": ["x"]},
    ],
    ids=str,
)
def test_wrong_order_or_reference_is_refused(queue: str, ask: Ask, wrong: dict[str, Any]) -> None:
    answer = ask("PeekMessages", status=400, QueueUrl=queue, **wrong)

    assert "InvalidParameterValue" in answer["__type"]
