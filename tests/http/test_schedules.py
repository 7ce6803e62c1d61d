"""Schedules over HTTP, with a node that runs them."""

from collections.abc import Callable
from typing import Any

import pytest

from support.http import NodeProcess, eventually

Ask = Callable[..., dict[str, Any]]


def given(queue: str, **more: Any) -> dict[str, Any]:
    expression = {"Expression": "0 3 * * *", "Zone": "Europe/Berlin", "MessageBody": "go"}
    name = queue.rpartition("/")[2]
    return {"QueueUrl": queue, "Name": name, **expression, **more}


def test_schedule_sends_each_tick_until_it_is_paused(sqs: Any, queue: str, ask: Ask) -> None:
    name = given(queue)["Name"]
    ask("CreateSchedule", **given(queue, Expression="every second", MessageGroupId="g"))

    got = eventually(lambda: sqs.receive_message(QueueUrl=queue).get("Messages"), why="a tick")
    ask("PauseSchedule", Name=name)
    shown = ask("DescribeSchedule", Name=name)

    assert got[0]["Body"] == "go"
    assert shown["Schedule"]["Paused"] is True
    assert got[0]["MessageId"] in {each.get("MessageId") for each in shown["Ticks"]}
    dues = [each["DueTimestamp"] for each in shown["Ticks"]]
    assert all(due % 1000 == 0 for due in dues)
    ask("DeleteSchedule", Name=name)


def test_preview_run_resume_and_delete(sqs: Any, queue: str, ask: Ask) -> None:
    created = ask("CreateSchedule", **given(queue))
    again = ask("CreateSchedule", **given(queue, MessageBody="another"))
    name = given(queue)["Name"]

    ask("RunSchedule", Name=name)
    ask("PauseSchedule", Name=name, Paused=False)
    shown = ask("DescribeSchedule", Name=name)
    listed = ask("ListSchedules")["Schedules"]
    ask("DeleteSchedule", Name=name)

    assert (created["IsNew"], again["IsNew"]) == (True, False)
    assert shown["NextTimestamps"] == created["NextTimestamps"]
    assert len(created["NextTimestamps"]) == 10
    (message,) = sqs.receive_message(QueueUrl=queue)["Messages"]
    assert message["Body"] == "another"
    assert [each["MessageId"] for each in shown["Ticks"]] == [message["MessageId"]]
    assert name in {each["Name"] for each in listed}
    gone = ask("DescribeSchedule", status=400, Name=name)
    assert "There is no schedule" in gone["message"]


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"Expression": "0 0 30 2 *"}, "never fires: its day-of-month is impossible"),
        ({"Expression": "at 2001-01-01T00:00"}, "has passed"),
        ({"EndTimestamp": 0}, "has passed"),
        ({"EndTimestamp": 1 << 62}, "Must be milliseconds since 1970"),
        ({"Expression": "0," * 150 + "0 * * * *"}, "Must be at most 256 characters"),
        ({"Zone": "Mars/Olympus"}, "There is no time zone 'Mars/Olympus'"),
        ({"Name": "a b"}, "Must be 1 to 64 letters"),
        ({"MessageBody": ""}, "MessageBody"),
        ({"JitterSeconds": 901}, "Must be between 0 and 900"),
        ({"MaximumFailures": 0}, "Must be between 1 and 1000"),
        ({"CatchUp": "some"}, "Must be latest or all"),
        ({"QueueUrl": "absent"}, "does not exist"),
    ],
)
def test_schedule_that_cannot_be_is_refused(
    queue: str, ask: Ask, wrong: dict[str, Any], error: str
) -> None:
    refused = ask("CreateSchedule", status=400, **given(queue) | wrong)

    assert error in refused["message"]


def test_far_delay_up_to_the_longest_of_the_queue(sqs: Any, queue: str, ask: Ask) -> None:
    day = 86_400
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"MaximumDelaySeconds": str(30 * day)})
    sent = sqs.send_message(QueueUrl=queue, MessageBody="x", DelaySeconds=30 * day)["MessageId"]
    other = sqs.send_message(QueueUrl=queue, MessageBody="y", DelaySeconds=day)["MessageId"]

    with pytest.raises(sqs.exceptions.ClientError) as caught:
        sqs.send_message(QueueUrl=queue, MessageBody="x", DelaySeconds=30 * day + 1)
    moved = ask("ReleaseMessages", QueueUrl=queue, MessageReferences=[sent], VisibleInSeconds=0)
    gone = ask("DeletePickedMessages", QueueUrl=queue, MessageReferences=[other, other])

    assert "DelaySeconds must be >= 0 and <= 2592000" in str(caught.value)
    assert moved["Results"][0]["Outcome"] == "rescheduled"
    assert [each["Outcome"] for each in gone["Results"]] == ["deleted", "deleted"]
    (message,) = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=5)["Messages"]
    assert message["Body"] == "x"
    delayed = "ApproximateNumberOfMessagesDelayed"
    asked = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=[delayed])
    assert asked["Attributes"] == {delayed: "0"}


def test_log_has_no_body_of_a_schedule(ask: Ask, queue: str, broker: NodeProcess) -> None:
    schedule = given(queue, MessageBody="pl4nted")
    ask("CreateSchedule", **schedule)

    eventually(lambda: [line for line in broker.lines if f'"{schedule["Name"]}"' in line])
    assert not [line for line in broker.lines if "pl4nted" in line]
