"""SearchMessages over HTTP, and tasks with its filter."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from support.http import eventually

Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def filled(sqs: Any, queue: str) -> str:
    """Give a queue of ten orders."""
    for n in range(10):
        sqs.send_message(QueueUrl=queue, MessageBody=json.dumps({"order": n, "even": n % 2 == 0}))
    return queue


def orders(answer: dict[str, Any]) -> list[int]:
    return [json.loads(each["Body"])["order"] for each in answer["Messages"]]


def test_search_returns_what_matches_and_receives_nothing(ask: Ask, filled: str) -> None:
    found = ask("SearchMessages", QueueUrl=filled, BodyPath="$.even", MaxResults=3)

    assert orders(found) == [0, 2, 4]
    assert (found["Found"], found["Searched"], "NextToken" in found) == (5, 10, False)
    assert len(found["MessageReferences"]) == 5
    named = ask("PeekMessages", QueueUrl=filled, MessageReferences=found["MessageReferences"])
    assert orders(named) == [0, 2, 4, 6, 8]
    assert {each["State"] for each in named["Messages"]} == {"visible"}


def test_task_takes_what_the_filter_of_a_search_found(sqs: Any, ask: Ask, filled: str) -> None:
    found = ask("SearchMessages", QueueUrl=filled, BodyPath="$.even")
    sqs.send_message(QueueUrl=filled, MessageBody='{"order": 10, "even": true}')

    times = {"SentBefore": found["Clock"] + 60_000, "VisibleBefore": found["Clock"]}
    ask("StartMessageTask", QueueUrl=filled, Kind="delete", BodyPath="$.even", **times)

    def is_completed() -> bool:
        (task,) = ask("ListMessageTasks", QueueUrl=filled)["Tasks"]
        return bool(task["Status"] == "COMPLETED")

    eventually(is_completed)
    (task,) = ask("ListMessageTasks", QueueUrl=filled)["Tasks"]
    assert (task["BodyPath"], task["VisibleBefore"]) == ("$.even", found["Clock"])
    assert orders(ask("PeekMessages", QueueUrl=filled, MaxResults=100)) == [1, 3, 5, 7, 9, 10]


@pytest.mark.parametrize(
    "wrong",
    [
        {"BodyPath": "$.a ? ("},
        {"BodyContains": ""},
        {"FailureKind": "x" * 257},
        {"AttributeValue": "x"},
        {"MinimumReceiveCount": 0},
        {"SentBefore": -1},
        {"SentBefore": 1 << 60},
        {"MaxResults": 101},
        {"NextToken": "eA=="},
    ],
    ids=str,
)
def test_wrong_filter_is_refused(ask: Ask, queue: str, wrong: dict[str, Any]) -> None:
    answer = ask("SearchMessages", status=400, QueueUrl=queue, **wrong)

    assert "InvalidParameterValue" in answer["__type"]


def test_search_of_nothing_ends(ask: Ask, queue: str) -> None:
    found = ask("SearchMessages", QueueUrl=queue, FailureKind="", SentBefore=0)

    assert (found["Found"], found["Searched"], found["Messages"]) == (0, 0, [])
