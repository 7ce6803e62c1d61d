"""The live tail of a queue, in a browser."""

import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from support.browser import KEYS, Browser
from support.http import NodeProcess, client, eventually, raw
from support.visitor import Visitor

_number = count(1)


@pytest.fixture
def name() -> str:
    return f"tailed-{next(_number)}"


@pytest.fixture
def sqs(node: NodeProcess) -> Any:
    return client(node.url)


@pytest.fixture
def url(sqs: Any, name: str) -> str:
    return str(sqs.create_queue(QueueName=name)["QueueUrl"])


def shown(browser: Browser) -> list[str]:
    script = "return [...document.querySelectorAll('#tail .preview')].map((e) => e.textContent)"
    return list(browser.run(script))


def test_messages_are_shown_as_they_come(
    node: NodeProcess, browser: Browser, sqs: Any, name: str, url: str
) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="before")
    browser.look("desktop", "light")
    browser.open(f"{node.url}/console/queues/{name}/messages")
    browser.tab_to("Live tail")
    browser.press(KEYS.ENTER)
    browser.wait("New messages, newest first")
    assert shown(browser) == ["before"]
    browser.run(
        "window.asked = 0; window.open = new Set();"
        "addEventListener('htmx:beforeRequest', (event) => {"
        " window.asked += event.detail.pathInfo.requestPath.includes('/tail/new');"
        " window.open.add(event.detail.xhr); });"
        "addEventListener('htmx:afterRequest', (event) => window.open.delete(event.detail.xhr));"
    )

    sqs.send_message(QueueUrl=url, MessageBody="first")
    eventually(lambda: shown(browser) == ["first", "before"])
    sqs.send_message(QueueUrl=url, MessageBody="second")
    eventually(lambda: shown(browser) == ["second", "first", "before"])

    browser.tab_to("Pause receives")  # Of the queue, ahead of the page's own.
    browser.tab_to("Pause")
    browser.press(KEYS.SPACE)
    assert browser.text("#tail-state") == "Paused"
    # What was asked for before has its answer.
    eventually(lambda: browser.run("return window.open.size === 0"))
    sqs.send_message(QueueUrl=url, MessageBody="meanwhile")
    browser.let_pass(3)  # What was asked for before.
    asked = browser.run("return window.asked")
    browser.let_pass(15)
    assert browser.run("return window.asked") == asked
    assert "meanwhile" not in shown(browser)
    browser.press(KEYS.SPACE)
    eventually(lambda: shown(browser)[0] == "meanwhile")

    browser.hide(hidden=True)
    browser.let_pass(3)
    asked = browser.run("return window.asked")
    browser.let_pass(15)
    assert browser.run("return window.asked") == asked
    browser.hide(hidden=False)
    eventually(lambda: browser.run("return window.asked") > asked)
    assert browser.complaints() == []
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert attributes["ApproximateNumberOfMessages"] == "4"
    assert attributes["ApproximateNumberOfMessagesNotVisible"] == "0"


def test_list_is_bounded(
    node: NodeProcess, browser: Browser, sqs: Any, name: str, url: str
) -> None:
    browser.look("desktop", "light")
    browser.open(f"{node.url}/console/queues/{name}/tail")
    assert browser.sees("No messages yet")

    for batch in range(26):
        entries = [{"Id": str(n), "MessageBody": f"{batch}-{n}"} for n in range(10)]
        sqs.send_message_batch(QueueUrl=url, Entries=entries)
        if batch % 4 == 3:
            eventually(lambda last=batch: any(t.startswith(f"{last}-") for t in shown(browser)))

    eventually(lambda: any(each.startswith("25-") for each in shown(browser)))
    assert len(shown(browser)) == 200


def test_tail_is_sound_in_both_widths_and_schemes(
    node: NodeProcess, browser: Browser, sqs: Any, name: str, url: str, screenshots: Path
) -> None:
    for n in range(12):
        body = json.dumps({"order": n, "lines": ["x" * 300 * (n % 2)]})
        sqs.send_message(QueueUrl=url, MessageBody=body, DelaySeconds=60 * (n % 4 == 0))
    sqs.send_message(QueueUrl=url, MessageBody="long " * 2_000)
    sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=2)
    browser.look("phone", "light")
    browser.open(f"{node.url}/console/queues/{name}/tail")
    browser.click("#tail summary")
    browser.wait("First 2,048 of 10,000 characters")

    browser.inspect(screenshots, "tail")


def test_body_of_another_is_text(node: NodeProcess, sqs: Any, name: str, url: str) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="<script>alert(1)</script>")

    found = Visitor(node.url).get(f"queues/{name}/tail/new")

    assert (found.status, "<script>" in found.body) == (200, False)
    assert "&lt;script&gt;" in found.body
    assert raw(f"{node.url}/console/queues/nothing/tail").status == 400
