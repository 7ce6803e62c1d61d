"""GetOverview: totals, the database, and what needs attention."""

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import psycopg
import pytest

from support.http import NodeProcess, WsgiProcess, client, eventually, extension, raw
from support.postgres import Databases, as_node

Ask = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def quiet(request: pytest.FixtureRequest, embedded_databases: Databases) -> Iterator[NodeProcess]:
    """Give a node whose database has no troubles of other tests."""
    door = WsgiProcess if request.config.getoption("door") == "wsgi" else NodeProcess
    url = embedded_databases.migrated()
    with door(database_url=as_node(url), workers=1) as process:
        process.owner_url = url
        yield process.ready()


def test_overview_has_what_needs_attention_and_the_state_of_the_broker(
    quiet: NodeProcess, wire: str, name: str
) -> None:
    sqs, ask = client(quiet.url, wire), partial(extension, quiet.url)
    dead = f"{name}-dead"
    sqs.create_queue(QueueName=dead)
    arn = f"arn:aws:sqs:us-east-1:000000000000:{dead}"
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    url = sqs.create_queue(QueueName=name, Attributes={"RedrivePolicy": policy})["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="poison")
    for _ in range(2):
        sqs.receive_message(QueueUrl=url, VisibilityTimeout=0)

    def found() -> Any:  # Counts are added up once a second.
        overview = ask("GetOverview")
        own = [each for each in overview["Troubles"] if each.get("QueueName") == name]
        return (*own, overview) if own and "StandbyCount" in overview["Database"] else None

    trouble, overview = eventually(found)

    # Of the minute in which the first of them moved.
    assert 0 <= trouble.pop("Seconds") < 3600
    assert trouble.pop("SinceTimestamp")
    assert trouble == {
        "Trouble": "dead-lettered",
        "Severity": "warning",
        "Summary": f"Messages of {name} moved to a dead-letter queue in a quarter of an hour: 1",
        "QueueName": name,
        "DeadLetterQueue": dead,
        "Messages": 1,
        "Alert": "DeadLetters",
        "Remedy": "Look at the kinds of failure in its dead-letter queue.",
        "Usual": 0,
        "Account": "000000000000",
        "Region": "us-east-1",
        "Runbook": "/console/runbook#the-dead-letter-queue-fills",
    }
    assert overview["Found"] >= len(overview["Troubles"])
    assert overview["Totals"]["Queues"] >= 2
    assert overview["Totals"]["Messages"] >= 1
    database = overview["Database"]
    assert (database["State"], database["StandbyCount"]) == ("writable", 0)
    assert eventually(lambda: ask("GetOverview")["Nodes"]["Workers"] >= 1)
    assert len(ask("GetOverview", MaxResults=1)["Troubles"]) == 1


def test_new_failure_of_most_messages_comes_before_older_ones(
    quiet: NodeProcess, name: str
) -> None:
    sqs, ask = client(quiet.url), partial(extension, quiet.url)

    def fail(url: str, reason: str) -> None:
        sqs.send_message(QueueUrl=url, MessageBody="x")
        (message,) = sqs.receive_message(QueueUrl=url)["Messages"]
        receipt = {"QueueUrl": url, "ReceiptHandle": message["ReceiptHandle"]}
        ask("DeadLetterMessage", **receipt, FailureReason=reason)

    for kind, number in (("few", 1), ("many", 3)):
        sqs.create_queue(QueueName=f"{name}-{kind}-dead")
        arn = f"arn:aws:sqs:us-east-1:000000000000:{name}-{kind}-dead"
        policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 9})
        attributes = {"RedrivePolicy": policy}
        url = sqs.create_queue(QueueName=f"{name}-{kind}", Attributes=attributes)["QueueUrl"]
        for _ in range(number):
            fail(url, f"KeyError: {kind}")

    def found() -> list[str]:  # Counts are added up once a second.
        troubles = ask("GetOverview", MaxResults=100)["Troubles"]
        named = [each for each in troubles if each.get("QueueName", "").startswith(name)]
        return [each["QueueName"] for each in named if each["Trouble"] == "new-failure"]

    assert eventually(lambda: len(both := found()) == 2 and both) == [f"{name}-many", f"{name}-few"]
    fail(url, "ValueError: another")
    page = f"{quiet.url}/console/us-east-1/000000000000/queues/{name}-many/overview"
    body = eventually(lambda: (text := raw(page).body).count("in a new way") == 2 and text)
    identifiers = re.findall(r' id="([^"]+)"', body)
    assert len(identifiers) == len(set(identifiers))


def test_activity_has_messages_errors_durations_and_what_happened(quiet: NodeProcess) -> None:
    ask = partial(extension, quiet.url)
    url = client(quiet.url).create_queue(QueueName="active")["QueueUrl"]
    client(quiet.url).send_message(QueueUrl=url, MessageBody="x")
    ask("PeekMessages", status=400, QueueUrl=f"{url}-nowhere")

    def steps(member: str) -> list[Any]:
        with psycopg.connect(quiet.owner_url) as owner:
            owner.execute("select skipmq.sum_minutes()")
        activity = ask("GetOverview", Minutes=60)["Activity"]
        assert activity["StepMinutes"] == 1
        return [each[member] for each in activity["Steps"] if each.get(member)]

    assert sum(eventually(lambda: steps("Sent"))) >= 1
    assert eventually(lambda: steps("Messages"))[-1] >= 1
    absent = "AWS.SimpleQueueService.NonExistentQueue"
    assert eventually(lambda: [each[absent] for each in steps("Errors") if absent in each]) == [1]
    assert sum(steps("Requests")) >= len(steps("P99Milliseconds")) > 0
    long = ask("GetOverview", Minutes=360)["Activity"]
    assert long["StepMinutes"] == 5
    (started, *_) = long["Events"]
    assert (started["Event"], "Activity" in ask("GetOverview")) == ("node-started", False)


def test_minutes_are_kept_but_the_last_ones(quiet: NodeProcess) -> None:
    note = (
        "insert into skipmq.broker_minute"
        " select '', date_trunc('minute', now() - %s::interval), 'error', %s, 1"
    )
    ask = partial(extension, quiet.url)

    def codes() -> set[str]:
        steps = ask("GetOverview", Minutes=350)["Activity"]["Steps"]
        return {code for each in steps for code in each.get("Errors", {})}

    with psycopg.connect(quiet.owner_url, autocommit=True) as owner:
        owner.execute(note, ("100 minutes", "Old"))
        assert codes() >= {"Old"}
        owner.execute(note, ("1 minute", "Recent"))
        owner.execute(note, ("101 minutes", "Late"))

        assert codes() & {"Old", "Late", "Recent"} == {"Old", "Recent"}


@pytest.mark.parametrize("minutes", [0, 361])
def test_overview_refuses_another_number_of_minutes(ask: Ask, minutes: int) -> None:
    assert "InvalidParameterValue" in ask("GetOverview", status=400, Minutes=minutes)["__type"]


@pytest.mark.parametrize("most", [0, 101])
def test_overview_refuses_another_number_of_results(ask: Ask, most: int) -> None:
    assert "InvalidParameterValue" in ask("GetOverview", status=400, MaxResults=most)["__type"]
