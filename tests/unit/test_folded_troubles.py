"""Troubles of many queues are one line, but for those that stand out."""

from typing import Any

from skipmq.actions.skipmq.troubles import folded
from skipmq.broker.trouble_kinds import described


def dead(queue: str, messages: int = 1, usual: float = 0.0, **place: str) -> dict[str, Any]:
    found = described("dead-lettered", queue=queue, messages=messages, seconds=60)
    return found | {"Account": "1", "Region": "here", "Usual": usual} | place


def test_queues_of_a_place_with_the_same_trouble_are_one() -> None:
    (found,) = folded([dead("a"), dead("b", 2), dead("c", 3)])

    assert found["Summary"] == (
        "Messages of 3 queues moved to a dead-letter queue in a quarter of an hour: 6"
    )
    assert found["Queues"] == ["a", "b", "c"]
    assert "QueueName" not in found


def test_two_queues_or_three_places_stay_apart() -> None:
    apart = [dead("a"), dead("b"), dead("c", Region="there"), dead("d", Account="2")]

    assert folded(apart) == apart


def test_unusual_rate_stays_alone_and_first() -> None:
    found = folded([dead("broken", 80, 2.0), dead("a", 5, 4.0), dead("b"), dead("c")])

    assert [each.get("QueueName") for each in found] == ["broken", None]
    assert found[1]["Queues"] == ["a", "b", "c"]


def test_failed_tasks_keep_their_reasons() -> None:
    tasks = [described("task-failed", queue=name, reason=f"{name} is gone") for name in "abc"]

    assert folded(tasks) == tasks
