"""Libraries that take messages off queues for their users, each in a program of its own.

Each program checks what its library gives it, and prints a summary.
"""

from typing import Any

import pytest

from support import programs
from support.http import client


@pytest.fixture(scope="module")
def consumed(endpoint: str) -> dict[str, Any]:
    return programs.javascript("consumer.js").run(endpoint, "consumer")


def test_sqs_consumer_handles_and_deletes_every_message_and_stops(
    consumed: dict[str, Any],
) -> None:
    summary = consumed["handles"]

    assert summary["bodies"] == sorted(f"task {n}" for n in range(50))
    assert (summary["processed"], summary["refusals"], summary["left"]) == (50, [], ["0", "0"])
    assert summary["status"] == {"isRunning": False, "isPolling": False}


def test_sqs_consumer_gets_a_message_again_whose_handler_threw(
    consumed: dict[str, Any],
) -> None:
    summary = consumed["throws"]

    assert summary["attempts"] == ["1", "2"]
    assert summary["refusals"] == ["Unexpected message handler failure: not now"]
    assert (summary["processed"], summary["left"]) == (1, ["0", "0"])


def test_gocloud_subscription_takes_and_deletes_every_message(endpoint: str) -> None:
    summary = programs.go("subscriber").run(endpoint, "gocloud", "acknowledges")

    assert summary == {
        "bodies": sorted(f"task {n}" for n in range(60)),
        "metadata": {"plain": "value", "with space/☕": "any \n text"},
        "left": ["0", "0"],
        "absent": "NotFound",
    }


def test_gocloud_subscription_outlives_what_it_gives_back(endpoint: str) -> None:
    summary = programs.go("subscriber").run(endpoint, "gocloud", "refuses")

    assert summary == {"attempts": ["1", "2"], "last": "last", "left": ["0", "0"]}


def test_gocloud_subscription_keeps_the_order_of_a_group(endpoint: str) -> None:
    summary = programs.go("subscriber").run(endpoint, "gocloud", "fifo")

    assert summary["taken"] == {"a": ["a1", "a2", "a3"], "b": ["b1", "b2"]}
    assert summary["left"] == ["0", "0"]


@pytest.mark.slow
def test_spring_listeners_take_messages_of_standard_queues_and_of_a_fifo(endpoint: str) -> None:
    summary = programs.java("Listeners").run(endpoint, "spring")

    assert summary == {
        "plain": sorted(f"task {n}, süß" for n in range(50)),
        "batch": sorted(f"task {n}" for n in range(50)),
        "manual": ["by hand"],
        "again": ["1", "2"],
        "poisoned": ["poison", "poison"],
        "buried": ["poison"],
        "ordered": [["a1", "a2", "a3", "a4"], ["b1", "b2", "b3"]],
    }
    # The listeners made these queues themselves, and deleted all that they took.
    sqs = client(endpoint)
    queues = sqs.list_queues(QueueNamePrefix="spring-")["QueueUrls"]
    assert len(queues) == 7
    for queue in queues:
        found = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
        assert found["ApproximateNumberOfMessages"] == "0", queue
        assert found["ApproximateNumberOfMessagesNotVisible"] == "0", queue
