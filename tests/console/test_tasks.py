"""The page of all tasks, and the mark in the head of pages."""

import re
from typing import Any

import pytest

from support.browser import Browser
from support.http import NodeProcess, client, eventually
from support.key_commands import ACCOUNT, Keys
from support.visitor import Visitor, signed_in

ARN = "arn:aws:sqs:us-east-1:000000000000:"


@pytest.fixture
def sqs(node: NodeProcess) -> Any:
    return client(node.url)


def start(sqs: Any, name: str, rate: int | None = None, tens: int = 1) -> None:
    """Start a redrive of tens of messages of a dead-letter queue to a queue."""
    dead = sqs.create_queue(QueueName=f"{name}-dead")["QueueUrl"]
    sqs.create_queue(
        QueueName=name,
        Attributes={
            "RedrivePolicy": '{"deadLetterTargetArn": "arn:aws:sqs:us-east-1:000000000000:'
            f'{name}-dead", "maxReceiveCount": 3}}'
        },
    )
    entries = [{"Id": f"{n}", "MessageBody": f"{n}"} for n in range(10)]
    for _ in range(tens):
        sqs.send_message_batch(QueueUrl=dead, Entries=entries)
    sqs.start_message_move_task(
        SourceArn=f"{ARN}{name}-dead",
        DestinationArn=f"{ARN}{name}",
        **({} if rate is None else {"MaxNumberOfMessagesPerSecond": rate}),
    )


def test_running_task_is_marked_on_every_page_and_can_be_cancelled(
    node: NodeProcess, browser: Browser, sqs: Any
) -> None:
    start(sqs, "slow", rate=1, tens=30)
    browser.look("desktop", "light")
    browser.open(f"{node.url}/console/database")
    eventually(lambda: "1 task" in browser.text("#running"))
    browser.click("#running a")
    browser.wait("slow-dead")
    # Who started it: unsigned requests are those of an account.
    eventually(lambda: "000000000000" in str(browser.texts("[data-label=By]")) or _again(browser))

    assert browser.texts("tbody th")[0] == "slow-dead"
    assert "redrive to slow, 1/s" in browser.text("[data-label=Task]")
    assert browser.complaints() == []
    browser.click("button[aria-label^='Cancel the task']")

    browser.wait("Task cancelled after")
    eventually(lambda: "cancelled" in browser.text("[data-label=Status]") or _again(browser))
    eventually(lambda: browser.text("#running") == "" or _again(browser))


def _again(browser: Browser) -> bool:
    browser.driver.refresh()
    return False


def test_key_that_may_not_cancel_has_the_button_off(signing: NodeProcess, keys: Keys) -> None:
    admin, reader = keys.create(), keys.create(ACCOUNT, "--role", "reader")
    visitor = signed_in(signing, reader)
    sqs = client(signing.url, **admin)
    source = sqs.create_queue(QueueName="kept-dead")["QueueUrl"]
    target = sqs.create_queue(QueueName="kept")["QueueUrl"]
    sqs.send_message(QueueUrl=source, MessageBody="x")
    arns = [
        sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"][
            "QueueArn"
        ]
        for url in (source, target)
    ]
    policy = f'{{"deadLetterTargetArn": "{arns[0]}", "maxReceiveCount": 3}}'
    sqs.set_queue_attributes(QueueUrl=target, Attributes={"RedrivePolicy": policy})
    for _ in range(60):
        sqs.send_message(QueueUrl=source, MessageBody="x")
    sqs.start_message_move_task(
        SourceArn=arns[0], DestinationArn=arns[1], MaxNumberOfMessagesPerSecond=1
    )

    page = visitor.get("tasks").body

    assert "kept-dead" in page
    assert "disabled" in page.partition("Cancel the task of kept-dead")[2][:200]
    # Only those who may read the audit log see who started it.
    assert key_of(page) == "\N{EN DASH}"
    eventually(lambda: key_of(signed_in(signing, admin).get("tasks").body) == admin["key"])


def key_of(page: str) -> str:
    return page.partition('data-label="By">')[2].partition("<")[0]


def test_running_task_says_how_long_it_takes(node: NodeProcess, sqs: Any) -> None:
    start(sqs, "timed-task", rate=1, tens=30)
    visitor = Visitor(node.url)
    assert (
        "messages per second, 1 to 500; at 10, "
        in visitor.get("queues/timed-task-dead/redrive").body
    )

    for page in ("queues/timed-task-dead/redrive", "tasks"):
        eventually(
            lambda page=page: re.search("about [0-9a-z ]+ left", visitor.get(page).body), why=page
        )
    (task,) = sqs.list_message_move_tasks(SourceArn=f"{ARN}timed-task-dead")["Results"]
    sqs.cancel_message_move_task(TaskHandle=task["TaskHandle"])
    # The other tests of this node see their tasks alone.
    eventually(
        lambda: (
            sqs.list_message_move_tasks(SourceArn=f"{ARN}timed-task-dead")["Results"][0]["Status"]
            == "CANCELLED"
        )
    )
